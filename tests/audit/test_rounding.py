"""Equality of coefficients that are what is left of huge sums: each is judged by its own rounding error."""

from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
import pytest
import torch
from pipeline import run_steps
from transformers import LlamaForCausalLM
from transformers_run import prepare

from ff_memories.audit.compare import equality, settle
from ff_memories.audit.recompute import checks, rows, structure
from ff_memories.audit.recompute.audit import READ
from ff_memories.audit.recompute.basis import Basis
from ff_memories.audit.recompute.closeness import DIFFERS, NEAR_TIE
from ff_memories.workflow.runs.run import Run

pytestmark = pytest.mark.slow
LARGE, HUGE, EVERY, WRITERS = 1e3, 2e4, 3, 40
NAME = "tables/triggers"


def with_huge_tokens(folder):
    """Let layer 1 write a huge number behind some tokens, which layer 2 takes out again and nothing else touches."""
    model = LlamaForCausalLM.from_pretrained(folder).double().requires_grad_(False)
    inputs, layers = model.model.embed_tokens.weight, model.model.layers
    inputs[:, 0] = 0
    inputs[::EVERY, 0] = LARGE
    for layer in layers:
        layer.self_attn.o_proj.weight[0] = layer.mlp.down_proj.weight[0] = 0
    sizes = torch.linspace(0.1, 0.6, WRITERS, dtype=torch.float64)
    for layer, written in ((layers[0], HUGE), (layers[1], -HUGE - LARGE)):
        for matrix in (layer.mlp.gate_proj, layer.mlp.up_proj):
            matrix.weight[:WRITERS] = 0
            matrix.weight[:WRITERS, 0] = sizes
        score = sizes * inputs.shape[1] ** 0.5 * float(layer.post_attention_layernorm.weight[0])
        m = torch.nn.functional.silu(score) * score
        layer.mlp.down_proj.weight[0, :WRITERS] = written / WRITERS / m
    model.float().save_pretrained(folder)


@pytest.fixture(scope="module")
def huge(tmp_path_factory):
    """The basis of a run of such a model."""
    folder = tmp_path_factory.mktemp("huge")
    settings = prepare(folder, "llama", train=80, validation=40)
    with_huge_tokens(folder / "model")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        out = run_steps(folder, settings)
        made = lambda path: out / Path(path).name if str(path).startswith("results/") else folder / path
        return Basis.read(Run(settings), READ, made)


@pytest.fixture(scope="module")
def exact(huge):
    """Its triggers with the coefficients of the reference model, as a run of other arithmetic has them."""
    with torch.inference_mode():
        found = [
            float(huge.layer(huge.prefix(row), row["layer"]).coefficients()[-1, row["key"]])
            for row in huge.tables["triggers"].iter_rows(named=True)
        ]
    return huge.tables["triggers"].with_columns(coefficient=pl.Series(found, dtype=pl.Float32))


def settled(basis, one, other, run=...):
    """Compare two tables of triggers with the model at hand, or without it."""

    class Known(settle.Settler):
        def _first(self):
            return basis

    both: Any = {"a": {NAME: one}, "b": {NAME: other}}
    outcomes = equality.compare(both["a"], both["b"])
    with mock.patch.object(structure, "faults", lambda basis: []):
        Known(run, both, equality.FLOAT32).settle(outcomes)
    return outcomes[NAME]


def opened(one, other):
    """Return the rows of the second table that only the model can tell."""
    (found,) = equality.compare({NAME: one}, {NAME: other}).values()
    assert found.different == []
    return found.open["b"]


def moved(table, row, by):
    """Return a table with one coefficient moved."""
    this = pl.all_horizontal(pl.col(name) == row[name] for name in ("layer", "key", "rank"))
    coefficient = pl.when(this).then(row["coefficient"] + by).otherwise("coefficient").cast(pl.Float32)
    return table.with_columns(coefficient.alias("coefficient"))


def own_rounding(basis, row):
    with torch.inference_mode():
        return checks.rounding(basis, row, basis.prefix(row))


def test_two_arithmetics_differ_by_more_than_the_tolerance_and_are_equal(huge, exact):
    rows_ = opened(huge.tables["triggers"], exact)
    assert {row["layer"] for row in rows_} == {3}, "the layer behind the one that takes the huge number out"
    found = settled(huge, huge.tables["triggers"], exact)
    assert found.different == [] and found.settled == len(rows_) > 0


def test_without_the_model_they_are_different(huge, exact):
    found = settled(huge, huge.tables["triggers"], exact, run=None)
    assert found.different and all(settle.NOT_TOLD in line for line in found.different)


def test_a_forged_coefficient_of_ordinary_size_is_different(huge):
    table = huge.tables["triggers"]
    ordinary = [row for row in table.filter(layer=1, rank=1).to_dicts() if huge.prefix(row)[-1] % EVERY]
    for row in ordinary[:: len(ordinary) // 5]:
        assert own_rounding(huge, row) < 1e-4 * row["coefficient"]
        for off in (1e-3, 3e-4, 1e-2):
            found = settled(huge, table, moved(table, row, off * row["coefficient"]))
            assert len(found.different) == 1 and found.different[0].startswith("triggers, layer"), off


def test_a_forged_coefficient_is_different_just_beyond_its_own_rounding(huge, exact):
    """Beyond the tolerance, and next to what the model computes."""
    limits, tried = equality.FLOAT32, 0
    for row in opened(huge.tables["triggers"], exact):
        bound = own_rounding(huge, row)
        tolerance = limits.coefficient * row["coefficient"] + limits.noise * huge.largest[row["layer"]]
        if not 2 * tolerance < bound < 8 * tolerance:
            continue
        tried += 1
        assert settled(huge, exact, moved(exact, row, 0.95 * bound)).different == []
        for far in (1.05, -1.05, 30):
            assert len(settled(huge, exact, moved(exact, row, far * bound)).different) == 1
    assert tried > 0


def test_the_audit_counts_such_a_row_as_a_near_tie(huge, exact):
    found = [rows.recomputed("triggers", huge, row) for row in opened(exact, huge.tables["triggers"])]
    assert {result.state for result in found if "coefficient" in result.says} == {NEAR_TIE}


def test_an_effective_number_of_memories_is_judged_by_its_own_rounding(huge):
    table = huge.tables["composition"]

    def off(row, by):
        found = rows.recomputed("composition", huge, row | {"effective": row["effective"] * (1 + by)})
        return found.state if "effective" in found.says else "within the limit"

    behind = table.filter(layer=3).to_dicts()
    assert {off(row, 3e-4) for row in behind} == {NEAR_TIE, DIFFERS}
    assert {off(row, 0.1) for row in behind} == {DIFFERS}
    assert {off(row, 3e-4) for row in table.filter(layer=1).to_dicts()} == {DIFFERS}
    near = table.with_columns(pl.col("effective") * (1 + 3e-4))
    (found,) = equality.compare({"tables/composition": table[:9]}, {"tables/composition": near[:9]}).values()
    assert found.different == [] and found.opened == 9


def test_triggers_may_change_places_within_their_rounding(huge):
    table, tried = huge.tables["triggers"], {True: 0, False: 0}
    best = table.filter(layer=3).to_dicts()
    for first, second in pairwise(best):
        gap = first["coefficient"] - second["coefficient"]
        if first["key"] != second["key"] or not 3e-4 < gap < 3e-3:
            continue
        may = gap < own_rounding(huge, first) + own_rounding(huge, second)
        if tried[may] == 2:
            continue
        tried[may] += 1
        between = (first["coefficient"] + second["coefficient"]) / 2
        moved_ = table
        for here, other in ((first, second), (second, first)):
            this = pl.all_horizontal(pl.col(name) == here[name] for name in ("layer", "key", "rank"))
            put = {name: other[name] for name in ("sentence", "position", "next_token")} | {"coefficient": between}
            moved_ = moved_.with_columns(
                pl.when(this).then(pl.lit(value)).otherwise(name).cast(table.schema[name]).alias(name)
                for name, value in put.items()
            )
        found = settled(huge, table, moved_)
        assert (found.different == []) == may and found.exchanged == 2
    assert min(tried.values()) > 0
