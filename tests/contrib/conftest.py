"""A small run for tools that read one."""

import json

import pytest
from factories import words
from laid_out import label, lay_out
from pipeline import config, run_steps, write_inputs


@pytest.fixture(scope="session")
def labelled_run(tmp_path_factory):
    """A small run with its annotation plan and its proxy."""
    folder = tmp_path_factory.mktemp("labelled")
    write_inputs(folder, words(40), seed=8, train=120, decoder_layers=2)
    settings = config(patterns__keys_per_layer=6)
    (folder / "my.yaml").write_text(json.dumps(settings), encoding="utf-8")
    label(folder / "my.yaml", lay_out(folder, run_steps(folder, settings), "small"), folder / "dict.txt")
    return folder


@pytest.fixture
def of_small_run(labelled_run, monkeypatch):
    """The options that name the small run; its folder is the working folder."""
    monkeypatch.chdir(labelled_run)
    return "--configfile", "my.yaml"
