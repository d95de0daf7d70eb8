"""The untrained control: the same measures as everywhere, of weights that are nobody's."""

from collections import defaultdict

import numpy as np
import polars as pl
import pytest
import torch
from factories import words
from pipeline import config, run_steps, step, write_inputs

from ff_memories import tables
from ff_memories.claims import measures
from ff_memories.corpus import store
from ff_memories.memories import composition, untrained, values
from ff_memories.model import checkpoint, converted
from ff_memories.model.decoder import Decoder, Layer


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("control")
    write_inputs(folder, words(44), seed=4, decoder_layers=2)
    return folder, run_steps(folder, config())


def trained(out):
    return converted.load(out / "model.safetensors", out / "model.json")


def test_on_the_trained_weights_and_all_sentences_it_measures_what_the_tables_say(run):
    _, out = run
    decoder, corpus = Decoder(*trained(out)), store.read(out / "corpus.safetensors")
    read = {name: tables.read(out / f"{name}.parquet") for name in ("triggers", "values", "composition", "refinement")}
    keys = decoder.description.keys
    targets = untrained.top_targets(decoder, corpus, np.arange(corpus.train), "next", 100)
    top = read["triggers"].filter(pl.col("rank") == 1)
    follows = defaultdict(set)  # the same prefix in several sentences has the same coefficient: any may be met first
    for sentence in map(corpus.sentence, range(corpus.train)):
        for end in range(1, len(sentence)):
            follows[tuple(sentence[:end])].add(int(sentence[end]))
    for layer, key, sentence, end in top.select("layer", "key", "sentence", "position").iter_rows():
        assert targets[layer - 1, key] in follows[tuple(corpus.sentence(sentence)[:end])]
    assert (targets >= 0).sum() == len(top)

    tops = values.value_tops(decoder, decoder.vocabulary)
    examples = tables.read(out / "examples.parquet")
    seen = composition.observe(
        decoder, corpus, examples, tops, layer_prediction="ffn", memories="active", batch_tokens=100
    )
    made = untrained.table(targets, tops["all"], seen, "all")
    fires = targets >= 0
    assert made["agreement"].to_list() == pytest.approx(((targets == tops["all"]) & fires).sum(1) / fires.sum(1))
    assert (
        made["keys"].to_list()
        == read["values"].drop_nulls("agrees").group_by("layer", maintain_order=True).len()["len"].to_list()
    )
    zero = measures.zero_agreement(read["composition"], 1)["mean"]
    assert made["zero_agreement"].to_list() == pytest.approx(zero.to_list())
    active = measures.active_memories(read["composition"], keys)["median"]
    assert made["active"].to_list() == pytest.approx(active.to_list(), abs=1 / keys)
    residual = measures.residual_predicts(read["refinement"], 1)["mean"]
    assert made["residual_predicts"].to_list() == pytest.approx(residual.to_list())


def test_the_last_token_is_the_prefixs_own(run):
    _, out = run
    decoder, corpus = Decoder(*trained(out)), store.read(out / "corpus.safetensors")
    targets = untrained.top_targets(decoder, corpus, np.arange(corpus.train), "last", 100)
    top = tables.read(out / "triggers.parquet").filter(pl.col("rank") == 1)
    assert len(top) == (targets >= 0).sum() > 0
    for layer, key, sentence, position in top.select("layer", "key", "sentence", "position").iter_rows():
        assert targets[layer - 1, key] == corpus.sentence(sentence)[position - 1]


def test_a_key_that_never_fires_has_no_target_and_of_equals_the_first_counts(run):
    _, out = run
    description, weights = trained(out)
    corpus = store.read(out / "corpus.safetensors")
    weights = dict(weights)
    for name in ("layers.1.keys", "layers.1.key_bias"):
        weights[name] = weights[name].clone()
        weights[name][:3] = 0  # no coefficient above 0
    targets = untrained.top_targets(Decoder(description, weights), corpus, np.arange(corpus.train), "next", 100)
    assert (targets[1, :3] == -1).all() and (targets[1, 3:] >= 0).any()


def test_a_device_that_holds_one_sentence_at_a_time_finds_the_same(run, monkeypatch):
    _, out = run
    decoder, corpus = Decoder(*trained(out)), store.read(out / "corpus.safetensors")
    find = lambda: untrained.top_targets(decoder, corpus, np.arange(corpus.train), "last", 100)
    whole, attend = find(), Layer.attend

    def one_at_a_time(self, x, batch):
        if sum(n for _, n, _ in batch.groups) > 1:
            raise torch.OutOfMemoryError
        return attend(self, x, batch)

    monkeypatch.setattr(Layer, "attend", one_at_a_time)
    assert (find() == whole).all()


def test_weights_drawn_anew_keep_names_shapes_and_ties_and_follow_the_seed(run):
    _, out = run
    description, weights = trained(out)
    one, same, other = (untrained.untrained(description, weights, seed) for seed in (1, 1, 2))
    assert {n: w.shape for n, w in one.items()} == {n: w.shape for n, w in weights.items()}
    assert all(torch.equal(one[n], same[n]) for n in one)
    assert not torch.equal(one["layers.0.keys"], other["layers.0.keys"])
    assert not torch.equal(one["layers.0.keys"], weights["layers.0.keys"])
    assert description.aliases and all(one[n].data_ptr() == one[s].data_ptr() for n, s in description.aliases.items())


def test_matrices_drawn_anew_keep_a_vectors_length_and_the_rest_does_nothing(tmp_path):
    """A vector of unit variance has it still after a matrix."""
    write_inputs(tmp_path, words(44), decoder_embed_dim=32, decoder_ffn_embed_dim=96, no_decoder_final_norm=False)
    description, weights = checkpoint.read(tmp_path / "model.pt")
    drawn, vectors = untrained.untrained(description, weights, 1), torch.Generator().manual_seed(1)
    kinds = set()
    for name, made in drawn.items():
        if name in description.aliases:
            same = description.aliases[name]
            as_it_is = weights[name].shape == weights[same].shape and torch.equal(weights[name], weights[same])
            assert torch.equal(made, drawn[same] if as_it_is else drawn[same].t()), name
        elif made.dim() == 2:
            matrix = made if name.endswith("values") else made.t()  # of (what is read, what comes out)
            read = torch.randn(2000, len(matrix), generator=vectors)
            assert (read @ matrix).std() == pytest.approx(1, rel=0.2), name
            assert abs(made.mean()) < 5 * made.std() / made.numel() ** 0.5
        else:
            assert (made == (0 if "bias" in name else 1)).all(), name
        kinds.add(name.split(".")[-1])
    assert {"keys", "values", "key_bias"} <= kinds


def test_the_step_writes_the_same_bytes_twice_and_leaves_keys_that_never_fire_out(run):
    folder, out = run
    given = {"config": folder / "config.yaml", "corpus": out / "corpus.safetensors", "device": "cpu", "threads": 1,
             "weights": out / "model.safetensors", "description": out / "model.json"}  # fmt: skip
    arguments = ["control", *(word for name, value in given.items() for word in (f"--{name}", value))]
    step(*arguments, "--control", out / "control.parquet")
    step(*arguments, "--control", out / "again/control.parquet")
    assert (out / "control.parquet").read_bytes() == (out / "again/control.parquet").read_bytes()
    made = tables.read(out / "control.parquet")
    assert made["examples"].to_list() == [40, 40] and made["active"].is_between(0.3, 0.7).all()
    none = np.full((2, 3), -1)
    seen = composition.Observation.empty(4, 2, ["all"])
    assert untrained.table(none, none, seen, "all")["agreement"].to_list() == [None, None]
