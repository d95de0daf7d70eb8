"""Test the claims beyond the paper on simulated changes of memories, with and without an effect."""

import numpy as np
import polars as pl
import pytest

from ff_memories.judge.evidence import Evidence, Missing
from ff_memories.judge.measurement import Limit
from ff_memories.paper.beyond import claims as causal
from ff_memories.paper.beyond import measures as removal
from ff_memories.tables import TABLES

LAYERS, MEMORIES, PREFIXES, TRIALS = 7, 5, 4, 40


def simulated(rng, kept=0.0, grows=0.0):
    """Return a table ``causal``: memories differ, and so do a memory's prefixes.

    Args:
        kept: how much of its direct effect a memory keeps, in standard deviations of its total effect.
        grows: how much more it keeps from layer to layer, in the same unit.
    """
    layer, key, prefix = (axis.ravel() for axis in np.indices((LAYERS, MEMORIES, PREFIXES)))
    cell = {"layer": layer + 1, "key": key, "prefix": prefix, "intervention": "mean"}
    parts = []
    for control, mean in (("none", kept + grows * layer), ("matched", 0.0)):
        direct = rng.choice([-1, 1], len(layer)) * rng.lognormal(size=len(layer))
        of_memory = np.repeat(0.5 * rng.standard_normal(LAYERS * MEMORIES), PREFIXES)
        total = direct * (mean + of_memory + rng.standard_normal(len(layer)))
        parts.append(pl.DataFrame(cell | {"control": control, "direct": direct, "total": total}))
    return pl.concat(parts)


def above(check, limit, **effect):
    """Return how often the interval of a check's number lies above zero, of ``TRIALS`` simulations."""
    rng = np.random.default_rng(3)
    return sum(check(evidence(simulated(rng, **effect)), limit=limit).low > 0 for _ in range(TRIALS))


def evidence(table, name="causal"):
    return Evidence({name: table}, LAYERS, MEMORIES, 100)


def removed(rng, survives):
    """Return a table ``removals`` by margin: prefixes differ in how often their layers' predictions survive."""
    layer, prefix = (axis.ravel() for axis in np.indices((LAYERS, 40)))
    of_prefix = np.clip(survives + 0.2 * rng.standard_normal(40), 0, 1)[prefix]
    return pl.DataFrame({"layer": layer + 1, "prefix": prefix, "by": "margin", "removed": 1,
                         "layer_top_changed": rng.random(len(layer)) >= of_prefix})  # fmt: skip


def test_removals_by_size_have_no_say_in_what_survives_and_prefixes_are_what_is_resampled():
    table = removed(np.random.default_rng(1), 0.7)
    found, other = (
        causal.prediction_survives(evidence(one, "removals"), limit=None)
        for one in (table, pl.concat([table, table.with_columns(by=pl.lit("size"), layer_top_changed=True)]))
    )
    assert found == other and (found.n, found.units) == (LAYERS * 40, 40) and found.low < found.value < found.high


def test_without_the_largest_memories_predictions_are_counted_by_layer_and_by_number():
    rows = [(layer, prefix, "size", n, prefix < n + layer, prefix < 1)
            for layer in (1, 2) for prefix in range(10) for n in (1, 5)]  # fmt: skip
    names = ["layer", "prefix", "by", "removed", "layer_top_changed", "top_changed"]
    found = removal.lost(pl.DataFrame(rows, schema=names, orient="row"), 1)
    assert found["mean"].to_list() == [0.2, 0.6, 0.1, 0.1, 0.3, 0.7, 0.1, 0.1] and set(found["n"]) == {10}
    assert (found["low"] < found["mean"]).all() and (found["mean"] < found["high"]).all()


def test_a_sign_that_survives_as_often_as_a_matched_memorys_is_seldom_called_more_often():
    often = lambda **effect: above(causal.sign_survives, Limit(0.0), **effect)
    assert often() <= 0.08 * TRIALS and often(kept=1) >= 0.8 * TRIALS


def pairs(rng, ratio, memories=150):
    """Return pairs in which larger effects keep their sign more often, and own ones are ``ratio`` times as large."""
    size, matched_size = (times * rng.lognormal(0, 1.5, 4 * memories) for times in (ratio, 1))
    keeps = lambda sizes: rng.random(len(sizes)) < 0.5 + 0.4 * np.clip(0.3 * np.log(sizes / ratio**0.5), -1, 1)
    memory = np.repeat(np.arange(memories), 4)
    return pl.DataFrame({"memory": memory, "size": size, "matched_size": matched_size, "kept": keeps(size),
                         "matched": keeps(matched_size)})  # fmt: skip


def test_of_memories_that_differ_in_size_alone_none_keeps_its_sign_more_often():
    rng = np.random.default_rng(2)
    made = [pairs(rng, 23) for _ in range(TRIALS)]
    found = [removal.at_equal_size(one, 1) for one in made]
    assert np.mean([one["kept"].mean() - one["matched"].mean() for one in made]) > 0.3
    assert abs(np.mean([difference for difference, _, _ in found])) < 0.02
    assert sum(np.percentile(draws, 2.5) > 0 for _, draws, _ in found) <= 0.08 * TRIALS


def test_pairs_of_equal_size_are_those_of_a_loop_over_rows():
    table = pairs(np.random.default_rng(4), 5, memories=30)
    edges = np.quantile([*table["size"], *table["matched_size"]], np.arange(1, removal.SIZES) / removal.SIZES)
    cells: dict[int, tuple[list[bool], list[bool]]] = {at: ([], []) for at in range(removal.SIZES)}
    for row in table.iter_rows(named=True):
        for side, (size, kept) in enumerate((("size", "kept"), ("matched_size", "matched"))):
            cells[sum(row[size] > edge for edge in edges)][side].append(row[kept])
    both = {at: min(map(len, sides)) for at, sides in cells.items() if min(map(len, sides))}
    wanted = sum(n * (np.mean(cells[at][0]) - np.mean(cells[at][1])) for at, n in both.items()) / sum(both.values())
    found, _, rows = removal.at_equal_size(table, None)
    assert found == pytest.approx(wanted) and rows == sum(both.values())
    none = removal.at_equal_size(table.with_columns(size=pl.col("size") + 1e6), None)
    assert np.isnan(none[0]) and none[2] == 0


def test_a_share_that_does_not_depend_on_the_layer_is_seldom_said_to_grow():
    assert above(causal.share_grows, None, kept=0.5) <= 0.08 * TRIALS
    assert above(causal.share_grows, None, grows=0.3) >= 0.8 * TRIALS


def test_effects_correlate_within_layers_and_a_layers_size_adds_nothing():
    table = simulated(np.random.default_rng(1))
    scaled = table.with_columns(pl.col("direct", "total") * 10 ** pl.col("layer").cast(pl.Int64))
    found, again = (causal.effects_correlate(evidence(one), limit=None) for one in (table, scaled))
    assert found.value == again.value and found.low < found.value < found.high and abs(found.value) < 0.3
    same = table.with_columns(total="direct")
    assert causal.effects_correlate(evidence(same), limit=None).value == pytest.approx(1)


def test_the_last_layer_other_interventions_and_changes_without_an_effect_have_no_say():
    table = simulated(np.random.default_rng(1))
    more = [table.with_columns(total="direct", intervention=pl.lit("zero")).filter(control="none"),
            table.filter(control="none").with_columns(prefix=pl.lit(99, pl.Int64), direct=0.0)]  # fmt: skip
    other = pl.concat([table.filter(pl.col("layer") < LAYERS), *more])
    assert removal.tested(other, LAYERS).equals(removal.tested(table, LAYERS))


def test_both_signs_of_a_key_are_two_memories():
    table = simulated(np.random.default_rng(1))
    both = pl.concat([table.with_columns(pl.col("key") + neurons) for neurons in (0, 1000)])  # as tables are read
    assert removal.effects(both, LAYERS)["memory"].n_unique() == 2 * removal.effects(table, LAYERS)["memory"].n_unique()


def test_a_run_that_changes_no_memory_measures_nothing_and_says_so():
    with pytest.raises(Missing, match="keys_per_layer"):
        causal.sign_survives(evidence(pl.DataFrame(schema=TABLES["causal"].columns)), limit=Limit(0.0))
    with pytest.raises(Missing, match=r"removals\.prefixes"):
        causal.prediction_survives(evidence(pl.DataFrame(schema=TABLES["removals"].columns), "removals"), limit=None)
