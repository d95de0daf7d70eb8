"""The planted run, published, and clones of it."""

import shutil

import pytest
from projects import restored


@pytest.fixture(scope="module")
def fresh(recorded_run, tmp_path_factory):
    return restored(recorded_run, tmp_path_factory.mktemp("clones") / "fresh")


@pytest.fixture
def copy(fresh, tmp_path):
    shutil.copytree(fresh, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"
