"""Real runs that several tests look at, and a word on what was not run."""

import os
import shutil

import pytest
import torch
from filelock import FileLock
from planted_run import prepare
from projects import publish
from running import snakemake

torch.set_num_threads(1)


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

    def run(folder):
        prepare(folder)
        snakemake(folder)

    return made_once(tmp_path_factory, "planted", run)


@pytest.fixture(scope="session")
def recorded_run(planted_run, tmp_path_factory):
    """The project as a checkout whose default run is the planted one, recorded by DVC and pushed into the checkout."""
    return made_once(tmp_path_factory, "recorded", lambda folder: publish(planted_run, folder))


@pytest.fixture
def planted_copy(planted_run, tmp_path):
    """A copy of the planted run, to change."""
    shutil.copytree(planted_run, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


def pytest_terminal_summary(terminalreporter):
    left = terminalreporter.stats.get("deselected", [])
    if left:
        terminalreporter.section("not run")
        for marker in ("browser", "long", "slurm"):
            names = [item.nodeid for item in left if item.get_closest_marker(marker)]
            if names:
                terminalreporter.line(f"{len(names)} marked {marker}: pytest -m {marker}")
