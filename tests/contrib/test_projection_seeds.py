"""What random projections do to ranks: the table against export-agreement and a literal reading."""

import polars as pl
import pytest
import torch
from contributed import says, use
from factories import words
from pipeline import config, run_steps, write_inputs
from reference import Reference
from released_columns import script_softmax

from ff_memories import tables

TYPES = words(44)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    model = write_inputs(folder, TYPES, seed=9, scale=2.0, decoder_layers=2)
    out = run_steps(folder, config())
    use("released_code", "seeds", *arguments(folder, out))
    return folder, out, Reference(model, TYPES)


def arguments(folder, out):
    return ["--config", folder / "config.yaml", "--weights", out / "model.safetensors", "--description",
            out / "model.json", "--values", out / "values.parquet", "--seeds", 3, "--device", "cpu", "--threads", 1,
            "--out", out / "seeds.csv"]  # fmt: skip


def test_the_trained_softmax_stands_beside_the_seeds(run):
    _, out, reference = run
    table = pl.read_csv(out / "seeds.csv")
    assert table.select("projection", "seed").unique().sort("seed").rows() == [
        ("adaptive", 0), ("random", 1), ("random", 2), ("random", 3),
    ]  # fmt: skip
    values = tables.read(out / "values.parquet").drop_nulls("next_token")
    for row in table.filter(pl.col("projection") == "adaptive").iter_rows(named=True):
        own, ranks = values.filter(pl.col("layer") == row["layer"]), []
        for key, token in own.sort("key").select("key", "next_token").iter_rows():
            logp = reference.log_probabilities(reference.blocks[row["layer"] - 1].fc2.weight[:, key].detach())
            ranks.append(int((logp > logp[token]).sum()))
        tail = [r for r, token in zip(ranks, own.sort("key")["next_token"], strict=True) if token >= 12]
        assert (row["n"], row["n_tail"], row["moved"]) == (len(ranks), len(tail), 0)
        assert row["median"] == pl.Series(tail).median()
        assert row["agreement"] == pytest.approx(ranks.count(0) / len(ranks))
    assert table.filter(projection="random")["moved"].to_numpy().min() > 0
    spread = table.filter(pl.col("projection") == "random").group_by("layer").agg(pl.col("median").n_unique())
    assert spread["median"].to_numpy().max() > 1


def test_a_seeds_ranks_are_those_of_the_scripts_softmax(run):
    """As fairseq's own modules give them, in training mode, after torch.manual_seed."""
    _, out, reference = run
    softmax = script_softmax(reference.model.decoder.embed_tokens, 2)
    values = tables.read(out / "values.parquet").drop_nulls("next_token")
    table = pl.read_csv(out / "seeds.csv").filter(projection="random", seed=2).sort("layer")
    for layer, block in enumerate(reference.blocks, 1):
        with torch.no_grad():
            logp = softmax.get_log_prob(block.fc2.weight.float().T.unsqueeze(0), None).squeeze()
        rows = values.filter(pl.col("layer") == layer).select("key", "next_token").iter_rows()
        ranks = pl.Series([int((logp[key] > logp[key, token]).sum()) for key, token in rows if token >= 12])
        assert [table[c][layer - 1] for c in ("q1", "median", "q3")] == [
            ranks.quantile(q, "linear") for q in (0.25, 0.5, 0.75)
        ]


def test_a_model_without_projections_is_refused(tmp_path, capsys):
    write_inputs(tmp_path, TYPES, adaptive=False, decoder_layers=1)
    out = run_steps(tmp_path, config())
    assert "has no projections to draw" in says(capsys, "released_code", "seeds", *arguments(tmp_path, out))
