"""A small run of each kind of model, laid out as the workflow does, for the exports."""

import pytest
from laid_out import lay_out
from pipeline import run_steps, step
from transformers_run import INPUTS, prepare


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """A run of a small gated model of `transformers`, with both signs."""
    folder = tmp_path_factory.mktemp("llama")
    settings = prepare(folder, "llama", train=60, validation=30)
    assert all((folder / name).exists() for name in INPUTS)
    results = lay_out(folder, run_steps(folder, settings), "small")
    tables = results / "tables"
    step("annotation-plan", "--config", folder / "my.yaml", "--triggers", tables / "triggers.parquet", "--corpus",
         results / "corpus" / "corpus.safetensors", "--dictionary", results / "model" / "types.json", "--plan",
         tables / "annotation_plan.parquet")  # fmt: skip
    return folder


@pytest.fixture
def here(llama, monkeypatch):
    """The same run as the current folder."""
    monkeypatch.chdir(llama)
    return llama
