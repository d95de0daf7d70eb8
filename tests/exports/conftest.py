"""A small run of each kind of model, laid out as the workflow does, for the exports; and other projects' readers."""

import sys

import pytest
import yaml
from factories import words
from laid_out import label, lay_out
from pipeline import config, run_steps, write_inputs
from running import ROOT
from transformers_run import INPUTS, prepare


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """A run of a small gated model of `transformers`, with both signs."""
    folder = tmp_path_factory.mktemp("llama")
    settings = prepare(folder, "llama", train=60, validation=30)
    assert all((folder / name).exists() for name in INPUTS)
    results = lay_out(folder, run_steps(folder, settings), "small")
    label(folder / "my.yaml", results, results / "model" / "types.json")
    return folder


@pytest.fixture(scope="session")
def fairseq(tmp_path_factory):
    """A run of a small fairseq checkpoint."""
    folder = tmp_path_factory.mktemp("fairseq")
    write_inputs(folder, words(40), seed=8, train=60, decoder_layers=2)
    (folder / "my.yaml").write_text(yaml.safe_dump(config()), encoding="utf-8")
    lay_out(folder, run_steps(folder, config()), "small")
    return folder


@pytest.fixture
def here(llama, monkeypatch):
    """The same run as the current folder."""
    monkeypatch.chdir(llama)
    return llama


@pytest.fixture
def reader(monkeypatch):
    """Return a function that imports a module of the project that an export is for."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / ".venv" / "readers" / "site-packages")])
    return lambda name: pytest.importorskip(name, reason="needs make .venv/.readers")
