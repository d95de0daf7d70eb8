"""`triggers` and `sample` on models of `transformers`: texts are read as the run read them."""

import json

import pytest
from contributed import says, use
from laid_out import lay_out
from pipeline import run_steps
from transformers_run import prepare

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.corpus.tokenizer import read_types

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def results(request, tmp_path_factory):
    """A small run, ungated and gated; its texts are named by their whole paths."""
    folder = tmp_path_factory.mktemp(request.param)
    settings = prepare(folder, request.param, train=60, validation=30)
    return lay_out(folder, run_steps(folder, settings), "small")


def of(results, *names):
    """Return options that name a run's tables."""
    return [part for name in names for part in (f"--{name}", results / "tables" / f"{name}.parquet")]


def words(results):
    """Return each sentence's words as the corpus has them, by number."""
    corpus = store.read(results / "corpus" / "corpus.safetensors")
    types = read_types(results / "model" / "types.json")
    return {number: types.words(corpus.sentence(number).tolist()) for number in range(len(corpus))}


def test_triggers_have_the_texts_that_the_run_read(results, tmp_path):
    info = json.loads((results / "model" / "info.json").read_text())
    use("released_code", "triggers", *of(results, "triggers", "sentences"), "--info",
        results / "model" / "info.json", "--top", 5, "--out", tmp_path / "out.jsonl")  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(lines) == info["keys"] == info["signs"] * info["neurons"]
    held, known = tables.read(results / "tables" / "triggers.parquet"), words(results)
    assert held.height > 100
    for row in held.iter_rows(named=True):
        found = lines[row["key"]]["top_values"][row["layer"] - 1][row["rank"] - 1]
        assert found["text"].split() == known[row["sentence"]]
        assert (found["token_indice"], found["fc1_value"]) == (row["position"], row["coefficient"])


def test_a_text_that_did_change_is_refused(results, tmp_path, capsys):
    text = results.parents[1] / "train.txt"
    before = text.read_text()
    text.write_text(before.replace("Anna", "Anna Anna", 1))
    try:
        said = says(capsys, "released_code", "sample", *of(results, "sentences", "examples"), "--out", tmp_path / "out")
    finally:
        text.write_text(before)
    assert "train.txt, line " in said and "changed since the run" in said
