"""Commands of the tested environment, and one key of a run changed."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
TOOLS = os.pathsep.join(map(str, sorted((ROOT / "tests" / "tools").iterdir())))  # for PYTHONPATH
BIN = Path(sys.executable).parent


def command(*arguments, cwd=ROOT, check=True, **env):
    """Run a command of the tested environment in a folder; return the finished process, its output as text."""
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [BIN / arguments[0], *map(str, arguments[1:])], cwd=cwd, text=True, capture_output=True,
        env={**os.environ, **path, **env},
    )  # fmt: skip
    if check and done.returncode:
        raise AssertionError(f"{' '.join(map(str, arguments))}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}")
    return done


def snakemake(folder, *arguments, check=True, **env):
    """Run the project's Snakefile on the run described by my.yaml in another folder."""
    return command("snakemake", "--snakefile", ROOT / "Snakefile", "--directory", folder, "--configfile",
                   folder / "my.yaml", "--cores", "2", *arguments, cwd=folder, check=check, **env)  # fmt: skip


def change(folder, path, value, configfile="my.yaml"):
    """Change one key of a run's config."""
    settings = yaml.safe_load((folder / configfile).read_text())
    *sections, key = path.split(".")
    place = settings
    for section in sections:
        place = place.setdefault(section, {})
    place[key] = value
    (folder / configfile).write_text(yaml.safe_dump(settings, sort_keys=False))
