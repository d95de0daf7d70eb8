"""Untrained models of the run's shape, and what the same steps measure of them."""

import json

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from factories import words
from pipeline import BASELINE, baseline, config, run_steps, write_inputs

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.corpus import store
from ff_memories.model import drawn
from ff_memories.model.files import checkpoint, converted


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("untrained")
    write_inputs(folder, words(44), seed=4, decoder_layers=2)
    return folder, run_steps(folder, config())


def measured(run, model, where, device="cpu"):
    """Return the tables of a baseline's model, by name."""
    baseline(run[0], run[1], model, where, device)
    return {name: tables.read(where / f"{name}.parquet") for name in BASELINE}


def test_the_runs_own_model_on_a_text_that_is_smaller_than_the_sample_gives_the_runs_tables(run, tmp_path):
    _, out = run
    made = measured(run, "same_sample", tmp_path)
    for name in ("values", "examples", "composition", "refinement", "mutations"):
        assert made[name].equals(tables.read(out / f"{name}.parquet")), name
    assert made["pattern_labels"].height and made["annotations"]["annotator"].unique().to_list() in ([], ["proxy"])


def test_an_untrained_model_is_another_one_each_time_and_the_same_when_made_again(run, tmp_path):
    first, again, other = (
        measured(run, name, tmp_path / str(place)) for place, name in enumerate(["untrained-1"] * 2 + ["untrained-2"])
    )
    for name in BASELINE:
        assert (tmp_path / "0" / f"{name}.parquet").read_bytes() == (tmp_path / "1" / f"{name}.parquet").read_bytes()
    assert first["values"].equals(again["values"]) and not first["values"].equals(other["values"])
    active = first["composition"].group_by("layer").agg(pl.col("active").mean() / 24)
    assert active["active"].is_between(0.3, 0.7).all()  # no bias, no training: half of all memories


def test_the_config_says_how_much_of_a_baseline_is_measured(run, tmp_path):
    folder, _ = run
    sizes = {"models": 1, "sentences": 30, "keys_per_layer": 2, "examples": 7}
    (folder / "config.yaml").write_text(yaml.safe_dump(config() | {"baselines": sizes}))
    made = measured(run, "same_sample", tmp_path)
    (folder / "config.yaml").write_text(yaml.safe_dump(config()))
    assert made["examples"].height == 7
    assert made["mutations"].select("layer", "key").unique()["layer"].value_counts()["count"].max() == 2
    assert made["values"]["triggers"].max() <= 6 and made["values"].height == 2 * 24
    assert json.loads((tmp_path / "perplexity.json").read_text())["sentences"] == 30


@pytest.mark.parametrize("name", ["shuffled", "shuffled-x", "untrained", "untrained-", "untrained-x", "trained"])
def test_a_model_that_there_is_not_is_refused(run, tmp_path, name, capsys):
    with pytest.raises((UserError, AssertionError)):
        measured(run, name, tmp_path)
    assert "untrained-1" in capsys.readouterr().err


def test_the_sample_is_of_whole_sentences_that_keep_their_numbers(run):
    _, out = run
    corpus = store.read(out / "corpus.safetensors")
    part, numbers = corpus.sample(1, 30), corpus.sample(1, 30).numbers
    assert part.train == 30 and len(part) == len(numbers) == 30 + len(corpus) - corpus.train
    assert (np.diff(numbers) > 0).all() and (numbers[30:] == np.arange(corpus.train, len(corpus))).all()
    for place, number in enumerate(numbers):
        assert (part.sentence(place) == corpus.sentence(number)).all()
    assert (corpus.sample(1, 30).numbers == numbers).all() and (corpus.sample(2, 30).numbers != numbers).any()


def test_weights_drawn_anew_keep_names_shapes_and_ties_and_follow_the_seed(run):
    _, out = run
    description, weights = converted.load(out / "model.safetensors", out / "model.json")
    one, same, other, second = (drawn.untrained(description, weights, *seed) for seed in ((1,), (1,), (2,), (1, 2)))
    assert {n: w.shape for n, w in one.items()} == {n: w.shape for n, w in weights.items()}
    assert all(torch.equal(one[n], same[n]) for n in one)
    for unlike in (other, second, weights):
        assert not torch.equal(one["layers.0.keys"], unlike["layers.0.keys"])
    assert description.aliases and all(one[n].data_ptr() == one[s].data_ptr() for n, s in description.aliases.items())


def test_shuffled_weights_have_the_entries_of_each_matrix_in_another_order_and_the_rest_as_it_is(run):
    _, out = run
    description, weights = converted.load(out / "model.safetensors", out / "model.json")
    one, same, other, second = (drawn.shuffled(description, weights, *seed) for seed in ((1,), (1,), (2,), (1, 2)))
    assert one.keys() == weights.keys() and all(torch.equal(one[name], same[name]) for name in one)
    assert all(one[n].data_ptr() == one[s].data_ptr() for n, s in description.aliases.items())
    for name in one.keys() - description.aliases.keys():
        if one[name].dim() == 1:
            assert torch.equal(one[name], weights[name]), name
            continue
        assert torch.equal(one[name].flatten().sort().values, weights[name].flatten().sort().values), name
        for unlike in (weights, other, second):
            assert not torch.equal(one[name], unlike[name]), name


@pytest.mark.parametrize("adaptive", [True, False])
def test_weights_drawn_anew_are_spread_as_those_of_a_model_that_fairseq_has_just_made(tmp_path, adaptive):
    made = []
    for seed in range(4):
        (folder := tmp_path / str(seed)).mkdir()
        write_inputs(folder, words(240), seed, decoder_embed_dim=32, decoder_ffn_embed_dim=96, adaptive=adaptive)
        made.append(checkpoint.read(folder / "model.pt"))
    description, weights = made[0]
    ones = [drawn.untrained(description, weights, 1, draw) for draw in range(4)]
    for name in weights:
        ours, theirs = (torch.cat([of[name].flatten() for of in models]) for models in (ones, [w for _, w in made]))
        if weights[name].dim() == 2:
            assert float(ours.std()) == pytest.approx(float(theirs.std()), rel=5 / len(ours) ** 0.5), name
            assert float(ours.abs().max()) == pytest.approx(float(theirs.abs().max()), rel=0.3), name
        elif name.endswith("qkv.bias"):  # PyTorch's own, as fairseq leaves it; the factory changes all biases
            assert 0.9 * 32**-0.5 < float(ours.abs().max()) <= 32**-0.5, name
        else:
            assert (ours == (0 if "bias" in name else 1)).all(), name
