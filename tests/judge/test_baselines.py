"""Test baselines, which apply the claims' checks to predictions without learning, against brute force."""

import numpy as np
import polars as pl
import pytest

from ff_memories import tables
from ff_memories.judge import wording
from ff_memories.judge.evidence import Evidence
from ff_memories.judge.register import register
from ff_memories.judge.statistics import clustered_shares, holm, joint_medians, medians, p_value
from ff_memories.judge.verdicts import verdicts
from ff_memories.paper import baselines
from ff_memories.report import outline
from ff_memories.report.page import markdown
from ff_memories.steps.claims import verdicts_of

LAYERS, KEYS, VOCAB, EXAMPLES = 4, 30, 12, 60


@pytest.fixture(scope="module")
def run():
    rng = np.random.default_rng(5)
    layer, key = (a.ravel() for a in np.indices((LAYERS, KEYS)))
    count = rng.integers(0, 6, LAYERS * KEYS)
    rows = [(la + 1, k, r + 1, int(rng.integers(0, VOCAB))) for la, k, n in zip(layer, key, count, strict=True)
            for r in range(n)]  # fmt: skip
    triggers = pl.DataFrame(rows, schema={"layer": pl.UInt8, "key": pl.UInt16, "rank": pl.UInt16, "target": pl.UInt32},
                            orient="row")  # fmt: skip
    first = dict(((la, k), t) for la, k, t in triggers.filter(rank=1).select("layer", "key", "target").iter_rows())
    values = pl.DataFrame({
        "layer": layer + 1, "key": key, "top_token": rng.integers(0, VOCAB, len(key)),
        "top_probability": rng.random(len(key)),
        "next_token": [first.get((la, k)) for la, k in zip(layer + 1, key, strict=True)],
        "next_token_rank": 0, "agrees": False, "agreeing_triggers": 0, "triggers": count,
    })  # fmt: skip
    refinement = pl.DataFrame({
        "example": np.repeat(np.arange(EXAMPLES), LAYERS), "layer": np.tile(np.arange(1, LAYERS + 1), EXAMPLES),
        **{name: rng.integers(0, 3, EXAMPLES * LAYERS) for name in ("residual_top", "ffn_top", "output_top")},
        "model_top": 1, "residual_probability": rng.random(EXAMPLES * LAYERS), "kind": "residual",
    })  # fmt: skip
    made = {name: tables.conform(frame, tables.TABLES[name]) for name, frame in
            {"values": values, "refinement": refinement}.items()}  # fmt: skip
    return made, triggers


def followed(values, triggers):
    """Return (agrees, agreeing_triggers) of every value, by a loop over triggers."""
    targets = {}
    for layer, key, _, target in triggers.sort("layer", "key", "rank").iter_rows():
        targets.setdefault((layer, key), []).append(target)
    found = []
    for row in values.iter_rows(named=True):
        own = targets.get((row["layer"], row["key"]), [])
        found.append((own[0] == row["top_token"] if own else None, sum(t == row["top_token"] for t in own)))
    return found


def told(values):
    return list(values.select("agrees", "agreeing_triggers").iter_rows())


def test_values_of_other_keys_are_the_same_values_of_the_same_layer(run):
    own, triggers = run
    made = baselines.random_pairs(own, triggers, np.random.default_rng(1))
    assert told(made["values"]) == followed(made["values"], triggers)
    for layer in range(1, LAYERS + 1):
        parts = (t["values"].filter(layer=layer).select("top_token", "top_probability") for t in (own, made))
        before, after = (part.rows() for part in parts)
        assert sorted(before) == sorted(after) and before != after
    assert made["values"]["next_token_rank"].null_count() == len(made["values"])
    before, after = (t["refinement"].sort("layer", "example") for t in (own, made))
    assert before.drop("residual_top", "kind").equals(after.drop("residual_top", "kind"))
    for r, f, o, kind in after.select("residual_top", "ffn_top", "output_top", "kind").iter_rows():
        assert kind == ("agreement" if r == f == o else "residual" if r == o else "ffn" if f == o else "composition")


def test_a_guess_by_frequency_is_the_commonest_type_and_ranks_by_counts(run):
    own, triggers = run
    counts = np.array([3, 9, 9, 1, 0, 2, 5, 5, 4, 8, 7, 6])
    made = baselines.unigram(own, triggers, counts)
    assert set(made["values"]["top_token"]) == {1} and told(made["values"]) == followed(made["values"], triggers)
    order = sorted(range(VOCAB), key=lambda t: (-counts[t], t))
    for row in made["values"].iter_rows(named=True):
        wanted = row["next_token"]
        assert row["next_token_rank"] == (None if wanted is None else order.index(wanted))
    assert set(made["refinement"]["residual_top"]) == {1}


def test_on_text_of_the_models_own_every_number_on_next_tokens_says_so(run):
    evidence = Evidence(tables=run[0], layers=LAYERS, keys=KEYS, vocab=VOCAB)
    plain, own = (verdicts(register(), evidence, "model", self_sampled=own) for own in (False, True))
    told = own.filter(pl.col("reason").str.contains(wording.SAMPLED_TEXT, literal=True))
    assert set(told["claim"]) == {claim.id for claim in register() if claim.next_tokens}
    assert own.drop("reason").equals(plain.drop("reason"))
    assert not plain["reason"].str.contains(wording.SAMPLED_TEXT, literal=True).any()
    found = verdicts_of(own, "4-bit weights")
    assert found["K11"]["text"] == wording.SAMPLED_TEXT and "text" not in found["K16"]
    assert {row["weights"] for row in found.values()} == {"4-bit weights"}
    assert markdown("x", "model", [], outline.rows(own)).count(f"({wording.OWN_TEXT})") == len(told)


def test_the_table_has_mean_least_and_largest_of_all_draws(run):
    own, triggers = run
    evidence = Evidence(tables=own, layers=LAYERS, keys=KEYS, vocab=VOCAB)
    counts = np.arange(VOCAB, 0, -1)
    sets = [("untrained", own), ("untrained", own), ("same_sample", own)]
    sets += baselines.guesses(own | {"composition": pl.DataFrame()}, triggers, counts, 3)
    made = baselines.table(register(), evidence, sets)
    by = {(r["claim"], r["baseline"]): r for r in made.iter_rows(named=True)}
    assert {name for claim, name in by if claim == "K11"} == {"untrained", "same_sample", "random_pairs", "unigram"}
    assert by["K11", "untrained"]["runs"] == 2 and by["K11", "random_pairs"]["runs"] == baselines.DRAWS
    assert by["K1", "untrained"]["measured"] is None and by["K1", "untrained"]["holding"] == 0  # no mutations
    for row in made.drop_nulls("measured").filter(pl.col("baseline") != "same_sample").iter_rows(named=True):
        assert row["low"] - 1e-12 <= row["measured"] <= row["high"] + 1e-12 and row["holding"] <= row["runs"]
    assert by["K11", "untrained"]["deviation"] == 0 and by["K11", "untrained"]["error"] > 0
    own_row = verdicts(register(), evidence, "surrogate").filter(claim="K11").row(0, named=True)
    assert (by["K11", "same_sample"]["low"], by["K11", "same_sample"]["high"]) == (own_row["low"], own_row["high"])
    own_rate = verdicts(register(), evidence, "surrogate").filter(claim="K11")["measured"].item()
    assert by["K11", "untrained"]["measured"] == own_rate


def test_p_values_count_resamples_on_the_wrong_side():
    draws = np.arange(1, 100) / 100
    assert p_value(draws, 0, "greater") == 1 / 100 and p_value(draws, 0.5, "greater") == 51 / 100
    assert p_value(draws, 0.5, "less") == (1 + 50) / 100 and p_value(-draws, 0, "less") == 1 / 100
    assert p_value(np.append(draws, np.nan), 0, "greater") == 2 / 101  # a resample without a number is on no side


def test_holms_correction():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0] and holm([]) == [] and holm([0.2]) == [0.2]


def test_resamples_of_shares_and_medians_are_those_of_whole_examples(run):
    own, _ = run
    frame = own["refinement"].select("example", "layer", "residual_probability", hit=pl.col("residual_top") == 1)
    shares, middles = clustered_shares(frame, "hit", "example", 1), joint_medians(frame, "residual_probability", 1)
    for layer in range(LAYERS):
        part = frame.filter(layer=layer + 1)
        assert shares[:, layer].mean() == pytest.approx(part["hit"].mean(), abs=0.01)
        spread = np.sqrt(part["hit"].mean() * (1 - part["hit"].mean()) / EXAMPLES)
        assert shares[:, layer].std() == pytest.approx(spread, rel=0.15)
        values = part["residual_probability"].to_numpy()
        naive = [np.sort(np.random.default_rng(s).choice(values, EXAMPLES))[(EXAMPLES - 1) // 2] for s in range(400)]
        for draws in (middles[:, layer], medians(values, 1)):
            assert set(draws) <= set(values)
            assert np.percentile(draws, [10, 90]) == pytest.approx(np.percentile(naive, [10, 90]), abs=0.1)
    assert not clustered_shares(frame, "hit", "example", None).size and not medians(values, None).size


def test_a_claim_has_a_corrected_p_value_if_and_only_if_it_is_judged_and_tested(run):
    own, _ = run
    made = verdicts(register(), Evidence(tables=own, layers=LAYERS, keys=KEYS, vocab=VOCAB), "surrogate")
    tested = made.drop_nulls("p")
    assert len(tested) and set(tested["verdict"]) <= {"holds", "too_small", "fails", "undecided"}
    claims = {claim.id: claim for claim in register()}
    assert all(claims[name].limit and claims[name].null is not None for name in tested["claim"])
    assert made.filter(pl.col("p").is_null())["p_holm"].null_count() == len(made) - len(tested)
    assert tested["p_holm"].to_list() == pytest.approx(holm(tested["p"].to_list()))
    assert set(made.drop_nulls("low")["resampled"]) <= {claim.resampled for claim in register()}
