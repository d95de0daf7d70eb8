"""Real runs that several tests look at, and which tests are slow: ``slow.txt`` names them, as a run measured them."""

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from hypothesis import settings
from planted_run import prepare
from projects import publish
from running import snakemake

torch.set_num_threads(1)
for profile, examples in (("default", 100), ("quick", 15)):  # make quick names its own
    settings.register_profile(profile, deadline=None, max_examples=examples)
SLOW, FIXTURE = 0.05, 0.25  # seconds: a test, and a file with a fixture, that take longer are not in `make quick`
STORED = Path(__file__).with_name("slow.txt")


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


RUNS = {"planted_run", "planted_copy", "recorded_run"}  # fixtures that run the workflow


def pytest_addoption(parser):
    parser.addoption("--store-slow", action="store_true", help="name the slow ones of these tests in slow.txt")


def stored():
    return set(STORED.read_text(encoding="utf-8").splitlines())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    slow = stored()
    for item in items:
        if RUNS & set(item.fixturenames):
            item.add_marker("workflow")
        if slow & {item.nodeid, item.nodeid.partition("::")[0]}:
            item.add_marker("slow")


class Durations(Counter):
    """Seconds of each test; with several processes, of the one that hears of all tests."""

    def pytest_runtest_logreport(self, report):
        self[report.nodeid] += report.duration
        if report.when == "setup" and report.duration > FIXTURE and "workflow" not in report.keywords:
            self[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self, session):
        kept = stored() - self.keys()
        slow = sorted(kept | {test for test, seconds in self.items() if seconds > SLOW})
        STORED.write_text("\n".join(slow) + "\n", encoding="utf-8")


def pytest_configure(config):
    if config.getoption("store_slow") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())
