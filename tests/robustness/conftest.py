"""A folder of inputs to spoil."""

import pytest
from pipeline import write_inputs
from refusing import TYPES


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder, TYPES)
    return folder


@pytest.fixture
def folder(inputs, tmp_path):
    for path in inputs.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path
