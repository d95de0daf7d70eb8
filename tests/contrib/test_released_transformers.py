"""`triggers` on models of `transformers`: texts are read as the run read them."""

import json

import pytest
from contributed import use
from laid_out import lay_out
from pipeline import run_steps
from transformers_run import prepare

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.corpus.tokenizer import read_types


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_triggers_have_the_texts_that_the_run_read(name, tmp_path):
    """Of a small run, ungated and gated, whose texts are named by their whole paths."""
    results = lay_out(tmp_path, run_steps(tmp_path, prepare(tmp_path, name, train=60, validation=30)), "small")
    held, sentences = (results / "tables" / f"{table}.parquet" for table in ("triggers", "sentences"))
    card = results / "model" / "info.json"
    use("released_code", "triggers", "--triggers", held, "--sentences", sentences, "--info", card, "--top", 5, "--out",
        tmp_path / "out.jsonl")  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    info = json.loads(card.read_text())
    assert len(lines) == info["keys"] == info["signs"] * info["neurons"] and tables.read(held).height > 100
    corpus = store.read(results / "corpus" / "corpus.safetensors")
    types = read_types(results / "model" / "types.json")
    for row in tables.read(held).iter_rows(named=True):
        found = lines[row["key"]]["top_values"][row["layer"] - 1][row["rank"] - 1]
        assert found["text"].split() == types.words(corpus.sentence(row["sentence"]).tolist())
        assert (found["token_indice"], found["fc1_value"]) == (row["position"], row["coefficient"])
