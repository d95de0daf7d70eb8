"""The project as another checkout, whose default run is the planted one: for Snakemake and DVC to work on."""

import os
import shutil
import subprocess
from pathlib import Path

from running import ROOT, change, command

INPUTS = ("model.pt", "dict.txt", "train.txt", "validation.txt")
RESULTS = "results/planted"
AS = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]


def run(folder, *arguments, check=True, **env):
    """Run a command in a checkout, on that checkout's own sources."""
    return command(*arguments, cwd=folder, check=check, PYTHONPATH=folder / "src", **env)


def git(folder, *arguments):
    done = subprocess.run(["git", *AS, *map(str, arguments)], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def publish(planted_run, folder, name="planted", inputs=INPUTS, **env):
    """Make the project in a folder, adopt what Snakemake computed elsewhere, and push it into the checkout."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    for file in listed.split("\n"):
        if not file.startswith((".dvc/artefacts/", "data/demo", "runs/", "tests/")) and (ROOT / file).is_file():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, folder / file)
    for file in inputs:
        copy = shutil.copytree if (planted_run / file).is_dir() else shutil.copy2
        copy(planted_run / file, folder / file)
    shutil.copy(planted_run / "my.yaml", folder / "config" / "config.yaml")
    (folder / "annotations" / name).mkdir(parents=True)
    (folder / "annotations" / name / "README.md").write_text("Annotators' files go here.\n")
    for made in ("results", ".snakemake"):
        if (planted_run / made).is_dir():
            shutil.copytree(planted_run / made, folder / made)
    (folder / "dvc.lock").unlink(missing_ok=True)
    git(folder, "init", "-q")
    run(folder, "ff-memories", "dvc-yaml")
    run(folder, "snakemake", "--cores", "2", **env)  # the report names its config file, which is another one here
    run(folder, "ff-memories", "adopt")
    run(folder, "dvc", "push", "--quiet")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "published")
    return folder


def restored(project, folder, **env):
    """Clone a published project, pull its artefacts and restore."""
    subprocess.run(["git", "clone", "-q", project, folder], check=True, capture_output=True)
    run(folder, "dvc", "pull", "--quiet")
    run(folder, "ff-memories", "restore", **env)
    return folder


def steps(folder, *arguments, **env):
    """Run a command; return the steps that ran under it, by their logs."""
    logs = folder / RESULTS / "logs"
    times = lambda: {p.relative_to(logs).as_posix()[:-4]: p.stat().st_mtime_ns for p in logs.rglob("*.log")}
    before = times()
    run(folder, *arguments, **env)
    return {name for name, time in times().items() if before.get(name) != time}


def due(folder, *arguments):
    """Whether Snakemake has anything to do."""
    shown = run(folder, "snakemake", "-n", *arguments)
    return "Nothing to be done" not in shown.stdout + shown.stderr


def configure(folder, path, value):
    """Change one key of the default run's config."""
    change(folder, path, value, "config/config.yaml")


def files(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file of a folder."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def size(folder: Path) -> int:
    return sum(os.path.getsize(p) for p in folder.rglob("*") if p.is_file())
