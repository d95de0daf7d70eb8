"""Compare what chance gives, and the statistics of dependent values, with brute force."""

from itertools import permutations

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

from ff_memories.base.draws import interval
from ff_memories.judge.evidence import Evidence
from ff_memories.judge.measurement import Limit
from ff_memories.judge.statistics import area_under_curve, clustered_shares
from ff_memories.paper.keys import claims as keys_
from ff_memories.paper.layers.measures import zero_agreement_by_chance
from ff_memories.paper.values import claims as values_
from ff_memories.paper.values.measures import over_chance


def agreeing(top, wanted, layer=1):
    """Return values of a layer that predict ``top``, where ``wanted`` follows; ``None``: it is not known."""
    return pl.DataFrame({"layer": layer, "key": range(len(top)), "top_token": top, "next_token": wanted}).with_columns(
        agrees=pl.col("top_token") == pl.col("next_token"), top_probability=0.1, next_token_rank=0, triggers=1
    )


def test_random_pairs_agree_as_often_as_the_mean_over_all_pairings_of_a_layer():
    layers = {2: ([1, 1, 2, 5, 1], [1, 2, 2, 3, 1]), 3: ([4, 4, 1], [4, 1, None]), 4: ([7], [7])}
    frame = pl.concat(agreeing(*both, layer=layer) for layer, both in layers.items())
    wanted = 0.0
    for layer in (2, 3):
        pairs = [(a, b) for a, b in zip(*layers[layer], strict=True) if b is not None]
        top, following = [a for a, _ in pairs], [b for _, b in pairs]
        wanted += np.mean([sum(a == b for a, b in zip(top, order, strict=True)) for order in permutations(following)])
    agree, expected = over_chance(frame, [2, 3])
    assert agree == 4 and expected == pytest.approx(wanted) and sum(over_chance(frame, [9])) == 0


def test_as_many_active_memories_at_random_agree_as_often_as_drawn_ones():
    rng, memories, draws = np.random.default_rng(1), 12, 40_000
    top, number = rng.integers(0, 4, 2 * memories), {"top_token": pl.UInt32}
    values = pl.DataFrame({"layer": np.repeat([1, 2], memories), "top_token": top}, schema_overrides=number)
    cases = [(1, 3, 0), (1, 3, 3), (2, 5, 1), (2, 1, 2), (1, 0, 1), (2, 12, 9), (1, 11, int(top[0]))]
    rows = [{"example": n, "layer": layer, "active": active, "ffn_top": top}
            for n, (layer, active, top) in enumerate(cases)]  # fmt: skip
    table = pl.DataFrame(rows, schema_overrides={"ffn_top": pl.UInt32})
    found = zero_agreement_by_chance(table, values, "ffn_top")
    assert found["example"].to_list() == list(range(len(cases)))
    for (layer, active, top), chance in zip(cases, found["chance"], strict=True):
        same = (values.filter(layer=layer)["top_token"] == top).to_numpy()
        drawn = rng.permuted(np.tile(np.arange(memories), (draws, 1)), axis=1)[:, :active]
        assert chance == pytest.approx(1 - same[drawn].any(1).mean(), abs=0.01)


def test_the_area_under_the_curve_is_the_share_of_all_pairs_and_resamples_are_those_of_whole_tokens():
    rng = np.random.default_rng(2)
    score, unit = rng.integers(0, 6, 60) / 6, rng.integers(0, 15, 60)
    hit = rng.random(60) < 0.2 + 0.5 * score

    def by_pairs(score, hit):
        pairs = [(a > b) + 0.5 * (a == b) for a in score[hit] for b in score[~hit]]
        return np.mean(pairs) if pairs else np.nan

    area, draws = area_under_curve(score, hit, unit, 1)
    assert area == pytest.approx(by_pairs(score, hit)) and len(draws) == 400
    rows = [np.flatnonzero(unit == one) for one in np.unique(unit)]
    again = [np.concatenate([rows[n] for n in rng.integers(0, len(rows), len(rows))]) for _ in range(400)]
    naive = [by_pairs(score[at], hit[at]) for at in again]
    assert np.percentile(draws, [10, 50, 90]) == pytest.approx(np.percentile(naive, [10, 50, 90]), abs=0.03)
    for every in (np.ones(60, bool), np.zeros(60, bool)):
        assert np.isnan(area_under_curve(score, every, unit, 1)[0])
    assert not len(area_under_curve(score, hit, unit, None)[1])


def clustered(rng, tokens=40, keys=150, layers=(1, 2, 4)):
    """Return values of which those with one token agree together or not, in three layers, at a rate of 0.3."""
    top = rng.integers(0, tokens, (len(layers), keys)).ravel()
    agrees = (rng.random(tokens) < 0.3)[top]
    return pl.DataFrame({"layer": np.repeat(layers, keys), "top_token": top, "agrees": agrees})


def test_shares_are_resampled_as_in_a_loop_over_tokens():
    rng = np.random.default_rng(3)
    frame = clustered(rng)
    draws = clustered_shares(frame, "agrees", "top_token", 1)
    parts = frame.partition_by("top_token")
    again = [pl.concat([parts[n] for n in rng.integers(0, len(parts), len(parts))]) for _ in range(400)]
    naive = np.array([one.group_by("layer").agg(pl.col("agrees").mean()).sort("layer")["agrees"] for one in again])
    assert draws.shape == (4000, 3) and not clustered_shares(frame.clear(), "agrees", "top_token", 1).size
    assert draws.mean(0) == pytest.approx(naive.mean(0), abs=0.02)
    assert draws.std(0) == pytest.approx(naive.std(0), rel=0.12)
    of_two = np.corrcoef(naive.T)[0, 1]  # tokens of both layers are drawn together
    assert np.corrcoef(draws.T)[0, 1] == pytest.approx(of_two, abs=0.1) and of_two > 0.3


def test_intervals_by_token_cover_where_those_by_value_would_not():
    rng, inside = np.random.default_rng(4), np.zeros(2)
    for _ in range(200):
        frame = clustered(rng, layers=(1,))
        for n, unit in enumerate((pl.col("top_token"), pl.int_range(pl.len()))):
            draws = clustered_shares(frame.with_columns(unit=unit), "agrees", "unit", 1)
            low, high = np.percentile(draws, [2.5, 97.5])
            inside[n] += low <= 0.3 <= high
    assert inside[0] >= 0.88 * 200 and inside[1] <= 0.75 * 200


def test_the_interval_of_a_weighted_mean_is_about_the_normals():
    values = np.random.default_rng(0).normal(3, 2, 2000)
    wanted = norm.ppf([0.025, 0.975], values.mean(), values.std() / np.sqrt(2000))
    for found in (interval(values, 1), interval(values, 1, np.ones(2000))):
        assert np.allclose(found, wanted, atol=0.25 * values.std() / np.sqrt(2000))
    assert interval(np.full(40, 0.1), 1) == pytest.approx((0.1, 0.1)) and np.isnan(interval(np.empty(0), 1)).all()


@pytest.mark.parametrize("all_agree", [True, False])
def test_values_that_all_agree_or_never_do_are_measured_and_tell_nothing_of_probability(all_agree):
    top = np.arange(600) % 50
    frame = pl.concat(agreeing(top, top if all_agree else top + 50, layer=layer) for layer in range(1, 17))
    evidence, more = Evidence({"values": frame}, 16, 600, 100), {"limit": Limit(0.5)}
    assert values_.peak_above(evidence, layers=[11, 16], **more).value == all_agree
    assert values_.rises_with_probability(evidence, **more).reason == "all values agree, or none does"
    ratio = values_.contrast(evidence, lower=[1, 8], upper=[11, 16], **more)
    chance = values_.above_chance(evidence, layers=[11, 16], **more)
    assert [ratio.value, chance.value] == ([1, pytest.approx(50)] if all_agree else [None, None])
    assert all_agree or (ratio.few and chance.reason == "no value predicts what follows any key of its layer")


def test_three_equal_margins_of_patterns_are_seldom_said_to_differ_from_zero():
    """Layers with as many shallow as semantic triggers, above as below: the smallest margin is zero."""
    rng, said, trials = np.random.default_rng(5), {"yes": 0, "no": 0, "undecided": 0}, 150
    layer, key, rank = (axis.ravel() for axis in np.indices((4, 30, 5)))
    for trial in range(trials):
        own = rng.random((4, 30)) < 0.5  # a key's triggers are alike
        kind = np.where(rng.random(len(layer)) < 0.8, own[layer, key], rng.random(len(layer)) < 0.5)
        frame = pl.DataFrame({"annotator": "ann", "layer": layer + 1, "key": key, "rank": rank,
                              "label": np.where(kind, "shallow", "semantic")})  # fmt: skip
        evidence = Evidence({"pattern_labels": frame}, 4, 30, 100, seed=trial)
        found = keys_.shallow_then_semantic(evidence, lower=[1, 8], upper=[9, 16], limit=Limit(0.0))
        assert found.judged is not None and found.low <= found.value <= found.high
        said[found.judged.shows] += 1
    assert said["yes"] <= 0.05 * trials and said["no"] <= 0.06 * trials, said
