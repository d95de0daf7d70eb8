"""Real runs that several tests look at, and a word on what was not run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from filelock import FileLock

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent

torch.set_num_threads(1)


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


def snakemake(folder, *arguments, check=True):
    """Run the project's Snakefile on the run described by my.yaml in another folder."""
    return command("snakemake", "--snakefile", ROOT / "Snakefile", "--directory", folder, "--configfile",
                   folder / "my.yaml", "--cores", "2", *arguments, cwd=folder, check=check)  # fmt: skip


def made_once(tmp_path_factory, name, make):
    """Return a folder that ``make(folder)`` fills, once for all worker processes of a test run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, finished = shared / name, shared / f"{name}.finished"
    with FileLock(shared / f"{name}.lock"):
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)  # a worker that failed may have left one
            folder.mkdir()
            make(folder)
            finished.touch()
    return folder


@pytest.fixture(scope="session")
def planted_run(tmp_path_factory):
    """The whole workflow, by Snakemake, on the planted memories: the folder it ran in."""
    from test_planted import prepare

    def run(folder):
        prepare(folder)
        snakemake(folder)

    return made_once(tmp_path_factory, "planted", run)


@pytest.fixture(scope="session")
def recorded_run(planted_run, tmp_path_factory):
    """The project as a checkout whose default run is the planted one, recorded by DVC and pushed into the checkout."""
    from projects import publish

    return made_once(tmp_path_factory, "recorded", lambda folder: publish(planted_run, folder))


@pytest.fixture
def planted_copy(planted_run, tmp_path):
    """A copy of the planted run, to change."""
    shutil.copytree(planted_run, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


def change(folder, path, value):
    """Change one key of a run's config."""
    settings = yaml.safe_load((folder / "my.yaml").read_text())
    *sections, key = path.split(".")
    place = settings
    for section in sections:
        place = place.setdefault(section, {})
    place[key] = value
    (folder / "my.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))


def pytest_terminal_summary(terminalreporter):
    left = terminalreporter.stats.get("deselected", [])
    if left:
        terminalreporter.section("not run")
        for marker in ("browser", "long", "slurm"):
            names = [item.nodeid for item in left if item.get_closest_marker(marker)]
            if names:
                terminalreporter.line(f"{len(names)} marked {marker}: pytest -m {marker}")
