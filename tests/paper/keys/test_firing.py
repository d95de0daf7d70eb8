"""Firing rates, histograms, samples, levels and similar memories equal a plain float64 count."""

from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from factories import words
from pipeline import config, run_steps, write_inputs
from reference import Reference, rule_sentences

from ff_memories import tables
from ff_memories.corpus.store import Corpus
from ff_memories.gallery import coefficient_sample
from ff_memories.gallery.similar import closest
from ff_memories.paper.keys.triggers import fired

TYPES = words(44)
RUNS: dict[str, dict[str, Any]] = {
    "inner": {"gallery": {"sampled": 40}},
    "released, a few keys": {"triggers__positions": "released", "triggers__keys": {1: [0, 3], 2: [7]}},
    "full, several shards": {"triggers__positions": "full", "execution__shards": 5, "gallery": {"sampled": 1000}},
}


@pytest.fixture(scope="module", params=RUNS, ids=str)
def run(request, tmp_path_factory):
    folder, settings = tmp_path_factory.mktemp("run"), config(**RUNS[request.param])
    model = write_inputs(folder, TYPES)
    out = run_steps(folder, settings)
    reference = Reference(model, TYPES)
    sentences = [reference.encode(w) for w in rule_sentences(folder / "train.txt")]
    position = settings["triggers"]["positions"]
    low, high = {"auto": (1, -1), "released": (0, -1), "full": (1, 0)}[position]
    m = {s: [layer[1][low : len(tokens) + high + 1] for layer in reference.layers(tokens)]
         for s, tokens in enumerate(sentences)}  # fmt: skip
    return settings, {p.stem: tables.read(p) for p in out.glob("*.parquet")}, m, low, model


def test_firing_counts_every_prefix_of_the_text(run):
    settings, frames, m, *_ = run
    prefixes = sum(len(own[0]) for own in m.values())
    every = [np.sum([(np.asarray(own[layer]) > 0).sum(0) for own in m.values()], axis=0) for layer in range(len(m[0]))]
    asked = settings["triggers"].get("keys")
    keys = [(layer, key) for layer, row in enumerate(every, 1) for key in range(len(row))
            if asked is None or key in asked.get(layer, [])]  # fmt: skip
    assert frames["firing"].select("layer", "key").rows() == keys
    assert set(frames["firing"]["prefixes"]) == {prefixes}
    assert frames["firing"]["fired"].to_list() == [int(every[layer - 1][key]) for layer, key in keys]
    assert 0 <= frames["firing"]["fired"].min() < frames["firing"]["fired"].max() <= prefixes


def test_histograms_and_samples_are_of_the_sampled_sentences(run):
    settings, frames, m, low, _ = run
    n = settings.get("gallery", {}).get("sampled", 500)
    seen = set(frames["samples"]["sentence"])
    drawn = seen if n < len(m) else set(m)
    assert 0 < len(seen) <= n
    totals = frames["histogram"].group_by("layer", "key").agg(pl.col("n").sum())
    if n >= len(m):  # then the sample is the text, and its counts are the firing rates
        fires = frames["firing"].filter(pl.col("fired") > 0)
        joined = fires.join(totals, on=["layer", "key"], how="full")
        assert (joined["fired"] == joined["n"]).all() and joined.null_count().sum_horizontal().item() == 0
    best = {(row["layer"], row["key"]): row["coefficient"] for row in frames["triggers"].filter(rank=1).to_dicts()}
    if n >= len(m):
        for (layer, key), top in list(best.items())[::7]:
            values = np.concatenate([np.asarray(own[layer - 1])[:, key] for own in m.values()])
            counts = np.bincount(np.minimum(values[values > 0] / top * 20, 19.5).astype(int), minlength=20)
            rows = frames["histogram"].filter(layer=layer, key=key)
            assert dict(rows.select("bin", "n").rows()) == {i: c for i, c in enumerate(counts) if c}
            ordered = np.sort(values[values > 0])
            for row in frames["samples"].filter(layer=layer, key=key).to_dicts():
                place = (len(ordered) - 1) * row["percentile"] // 100
                assert row["coefficient"] == pytest.approx(ordered[place], rel=1e-4, abs=1e-6)
    for row in frames["samples"].sample(min(60, len(frames["samples"])), seed=1).to_dicts():
        assert row["sentence"] in drawn
        value = np.asarray(m[row["sentence"]][row["layer"] - 1])[row["position"] - low, row["key"]]
        assert row["coefficient"] == pytest.approx(value, rel=1e-4, abs=1e-6)


def test_levels_are_the_coefficients_along_shown_triggers(run):
    _, frames, m, low, _ = run
    triggers, levels = frames["triggers"], frames["levels"]
    assert levels.group_by("layer", "key", "rank").len()["len"].sum() == triggers["position"].sum()
    best = {(row["layer"], row["key"]): row["coefficient"] for row in triggers.filter(rank=1).to_dicts()}
    source = {(row["layer"], row["key"], row["rank"]): row["sentence"] for row in triggers.to_dicts()}
    for row in levels.sample(min(300, len(levels)), seed=2).filter(pl.col("position") >= low).to_dicts():
        key = row["layer"], row["key"]
        value = np.asarray(m[source[*key, row["rank"]]][row["layer"] - 1])[row["position"] - low, row["key"]]
        assert abs(row["level"] - min(max(61 * value / best[key], 0), 61)) <= 0.501
    exact = frames["shading"].join(levels, on=["layer", "key", "rank", "position"])
    assert set(exact["rank"]) == {1, 2, 3} and len(exact) == len(frames["shading"])


def test_similar_memories_are_those_with_the_highest_cosine(run):
    similar, layers = run[1]["similar"], run[-1].decoder.layers
    matrices = {"key": [layer.fc1.weight for layer in layers], "value": [layer.fc2.weight.t() for layer in layers]}
    for of, weights in matrices.items():
        vectors = torch.cat([matrix.detach().double() for matrix in weights])
        cosines = torch.nn.functional.cosine_similarity(vectors[3][None], vectors)
        cosines[3] = -2
        best = cosines.sort(descending=True).indices[:5]
        rows = similar.filter(of=of, layer=1, key=3)
        assert rows["place"].to_list() == [1, 2, 3, 4, 5]
        found = (rows["other_layer"].cast(pl.Int64) - 1) * len(weights[0]) + rows["other_key"].cast(pl.Int64)
        assert found.to_list() == best.tolist()
        np.testing.assert_allclose(rows["cosine"].to_numpy(), cosines[best].numpy(), atol=1e-6)


def test_percentiles_of_few_coefficients_are_different_prefixes():
    m = np.array([[0, 1, 1, 1, 2], [0, 0, 0, 0, 0], [5, 0, 0, 0, 0], [3, 4, 1, 2, 0]], np.float32)
    rows = coefficient_sample._samples(np.arange(4), m, np.arange(5), np.arange(5) + 10)
    found = {key: part.select("coefficient", "sentence", "position").rows() for (key,), part in rows.group_by("key")}
    assert found == {0: [(1, 1, 11)], 2: [(5, 0, 10)], 3: [(1, 2, 12), (2, 3, 13), (3, 0, 10)]}


@pytest.mark.parametrize("both", [False, True])
def test_closest_vectors_equal_a_full_search_in_float64(both):
    vectors = torch.from_numpy(np.random.default_rng(5).normal(size=(700, 12)))
    vectors[10] = vectors[600]  # equal to one another
    vectors[20] = -vectors[601]
    vectors[30] = 0
    unit = vectors / vectors.norm(dim=1, keepdim=True).clamp(min=1e-12)
    cosines = unit @ unit.t()
    size = cosines.abs() if both else cosines.clone()
    size.fill_diagonal_(-torch.inf)
    expected = size.sort(dim=1, descending=True, stable=True).indices[:, :7]
    asked = np.array([0, 10, 20, 30, 600, 601, 699])
    numbers, found = closest(vectors, asked, 7, both)
    np.testing.assert_allclose(found, cosines[asked[:, None], expected[asked]], atol=1e-6)
    tied = [10, 600]  # a copy ties with its original in every list
    for row, key in enumerate(asked):
        if not {*tied} & {*numbers[row].tolist()} - {key} and key != 30:
            assert numbers[row].tolist() == expected[key].tolist()
    assert numbers[1, 0] == 600 and numbers[4, 0] == 10 and (numbers[2, 0] == 601) == both
    assert not found[3].any()
    assert closest(vectors[:3], np.array([1]), 7)[0].shape == (1, 2)


@pytest.mark.parametrize("signs", [1, 2])
@pytest.mark.parametrize("rows", [1, 63, 64, 300])
def test_counts_are_weighted_and_exact(rows, signs):
    m = torch.from_numpy(np.random.default_rng(rows).normal(size=(rows, 5)).astype(np.float32)).relu_()
    m[:, 1] *= -1
    weights = torch.arange(rows, dtype=torch.float32) % 4
    expected = [(weights[:, None] * (m > 0)).sum(0), (weights[:, None] * (m < 0)).sum(0)][:signs]
    assert torch.equal(fired(m, weights, signs), torch.cat(expected).long())


def test_a_smaller_draw_is_part_of_a_larger_one():
    lengths = np.array([3, 1, 9, 2, 0, 5, 4])
    corpus = Corpus(np.zeros(24, np.int32), np.concatenate([[0], lengths.cumsum()]), 6)
    small, large = (coefficient_sample.drawn(corpus, n, "inner", 1) for n in (2, 50))
    assert set(small) <= set(large) == {0, 2, 3, 5} and lengths[large].tolist() == [3, 9, 2, 5]
