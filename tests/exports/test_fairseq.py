"""Exports of a run on a fairseq checkpoint: one sign, and a dictionary in place of a tokenizer."""

import gzip
import json

import polars as pl
from contributed import use


def lines(path):
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


def test_neuronpedia_gets_words_with_blanks_and_one_source_per_layer(fairseq, monkeypatch, tmp_path):
    monkeypatch.chdir(fairseq)
    use("neuronpedia", "export", "--configfile", "my.yaml", "--out", tmp_path / "np", "--model-id", "tiny")
    types = [line.rpartition(" ")[0] for line in (fairseq / "dict.txt").read_text(encoding="utf-8").splitlines()]
    types = ["<s>", "<pad>", "</s>", "<unk>", *types]
    assert {path.name for path in (tmp_path / "np" / "tiny").iterdir()} == {"0-ff-memories", "1-ff-memories"}
    triggers = pl.read_parquet("results/small/tables/triggers.parquet")
    values = {(r["layer"], r["key"]): r for r in pl.read_parquet("results/small/tables/values.parquet").to_dicts()}
    sentences = [line.split() for line in (fairseq / "train.txt").read_text(encoding="utf-8").splitlines()]
    text = " ".join(word for words in sentences for word in words)
    for layer in (1, 2):
        folder = tmp_path / "np" / "tiny" / f"{layer - 1}-ff-memories"
        features = lines(folder / "features" / "batch-0.jsonl.gz")
        assert len(features) == sum(at == layer for at, _ in values)
        for row in features:
            assert row["pos_str"][0] == " " + types[values[layer, int(row["index"])]["top_token"]]
            assert row["pos_values"][0] > 0 > row["neg_values"][0]
        acts = lines(folder / "activations" / "batch-0.jsonl.gz")
        assert len(acts) == triggers.filter((pl.col("layer") == layer) & (pl.col("rank") <= 3)).height
        assert all(all(token[0] == " " and token[1:] in types for token in row["tokens"]) for row in acts)
        known = [row for row in acts if " <unk>" not in row["tokens"]]
        assert len(known) > 20 and all("".join(row["tokens"]).strip() in text for row in known)
