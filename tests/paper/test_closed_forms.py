"""Planted memories: on a model whose memories are known, every table equals its closed form."""

import math

import polars as pl
import pytest
from planted import SLOPE
from planted_run import IDS, TOP, planted
from reference import rule_sentences

from ff_memories import tables


@pytest.fixture(scope="module")
def run(planted_run):
    read = lambda split: [tuple(IDS.get(w, 3) for w in s) for s in rule_sentences(planted_run / f"{split}.txt")]
    frames = {p.stem: tables.read(p) for p in (planted_run / "results" / "planted" / "tables").glob("*.parquet")}
    return planted(), read("train"), read("validation"), frames


def near(measured, expected):
    return math.isclose(measured, expected, rel_tol=1e-5, abs_tol=1e-6)


def test_triggers_are_the_latest_places_where_a_keys_words_stand(run):
    truth, train, _, frames = run
    got = {}
    for layer, key, _, coefficient, sentence, position, following in frames["triggers"].iter_rows():
        got.setdefault((layer, key), []).append((coefficient, sentence, position))
        assert following == train[sentence][position]
    ties = 0
    for layer in range(1, truth.layers + 1):
        for key in range(truth.keys):
            hits = []
            for s, tokens in enumerate(train):
                places = [j for j in range(1, len(tokens)) if truth.fires(layer, key, tokens[:j])]
                if places:
                    best = max(places, key=lambda j: truth.coefficients(layer, tokens[:j])[key])
                    hits.append((-truth.coefficients(layer, tokens[:best])[key], s, best))
            hits.sort()
            rows = got.get((layer, key), [])
            assert len(rows) == min(len(hits), TOP)
            for (coefficient, _, _), (expected, _, _) in zip(rows, hits, strict=False):
                assert near(coefficient, -expected)
            # other texts may tie to the last bit, and then either may come first; equal texts come in sentence order
            allowed = {(s, j): -c for c, s, j in hits}
            for place, (coefficient, s, j) in enumerate(rows):
                assert near(allowed.pop((s, j)), coefficient)
                same = [i for i, (_, other, k) in enumerate(rows) if k == j and train[other][:k] == train[s][:j]]
                assert all((i < place) == (rows[i][1] < s) for i in same if i != place)
                ties += len(same) - 1
    assert ties


def test_mutations_change_coefficients_as_the_keys_say(run):
    truth, train, _, frames = run
    rows = frames["mutations"].join(frames["triggers"], on=["layer", "key", "rank"], suffix="_trigger")
    assert len(rows) == len(frames["mutations"]) > 500
    outcomes = set()
    for row in rows.iter_rows(named=True):
        prefix = train[row["sentence"]][: row["position"]]
        rest = prefix[: row["removed"] - 1] + prefix[row["removed"] :]
        mutated = truth.coefficients(row["layer"], rest).get(row["key"], 0.0)
        original = truth.coefficients(row["layer"], prefix)[row["key"]]
        assert near(row["mutated"], mutated)
        assert near(row["change"], mutated / original - 1)
        outcomes.add((row["mutation"], mutated > 0))
    assert outcomes >= {("first", True), ("last", False), ("random", True), ("random", False)}
    unigrams = frames["mutations"].filter((pl.col("mutation") == "first") & (pl.col("layer") == 1))
    lengths = unigrams.join(frames["triggers"], on=["layer", "key", "rank"])["position"].to_list()
    for change, j in zip(unigrams["change"], lengths, strict=True):  # of one layer and a unigram: known at a glance
        assert near(change, (1 + SLOPE * (j - 1)) / (1 + SLOPE * j) - 1)


def test_values_predict_what_was_planted(run):
    truth, _, _, frames = run
    listed = {}
    for layer, key, _, _, _, _, following in frames["triggers"].iter_rows():
        listed.setdefault((layer, key), []).append(following)
    agreeing = 0
    for row in frames["values"].iter_rows(named=True):
        logp = truth.log_probabilities(truth.promoted(row["layer"], row["key"]))
        top = max(range(truth.vocab), key=lambda w: (logp[w], -w))
        assert row["top_token"] == top
        assert near(row["top_probability"], math.exp(logp[top]))
        targets = listed.get((row["layer"], row["key"]), [])
        assert row["triggers"] == len(targets)
        assert row["agreeing_triggers"] == targets.count(top)
        if targets:
            assert row["agrees"] == (targets[0] == top)
            above = sum(p > logp[targets[0]] + 1e-9 for p in logp)
            assert row["next_token_rank"] == above
            agreeing += row["agrees"]
        else:
            assert row["agrees"] is None
    assert agreeing >= 5


def test_composition_and_refinement_are_what_the_layers_promote(run):
    truth, train, validation, frames = run
    rows = frames["refinement"].join(frames["composition"], on=["example", "layer"], suffix="_again")
    rows = rows.join(frames["examples"], on="example", suffix="_example")
    top = lambda logp: max(range(truth.vocab), key=lambda w: (logp[w], -w))
    kinds, zero = set(), set()
    for row in rows.iter_rows(named=True):
        prefix = validation[row["sentence"] - len(train)][: row["position"]]
        last, layer = (2, *prefix)[-1], row["layer"]
        r, y = truth.residual(layer, prefix), truth.ffn(layer, prefix)
        o = truth.residual(layer + 1, prefix)
        final = top(truth.log_probabilities(truth.residual(truth.layers + 1, prefix), last))
        r_logp = truth.log_probabilities(r, last)
        expected = (top(r_logp), top(truth.log_probabilities(y)), top(truth.log_probabilities(o, last)))
        assert (row["residual_top"], row["ffn_top"], row["output_top"]) == expected
        assert row["model_top"] == final
        assert near(row["residual_probability"], math.exp(r_logp[final]))
        fires = truth.coefficients(layer, prefix)
        assert row["active"] == len(fires)
        tops = [top(truth.log_probabilities(truth.promoted(layer, key))) for key in fires]
        assert row["agreeing_memories"] == tops.count(expected[1])
        residual, ffn, output = expected
        kind = {(True, True): "agreement", (True, False): "residual", (False, True): "ffn"}
        assert row["kind"] == kind.get((output == residual, output == ffn), "composition")
        kinds.add(row["kind"])
        zero.add(row["agreeing_memories"] == 0)
    assert kinds == {"residual", "agreement", "composition", "ffn"}
    assert zero == {True, False}
