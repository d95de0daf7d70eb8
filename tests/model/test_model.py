"""The forward pass is fairseq's own, layer by layer, for every kind of checkpoint that is read."""

from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from factories import convert, words, write_checkpoint

from ff_memories.config.sections import Mutations, Triggers
from ff_memories.corpus.store import Corpus
from ff_memories.model.decoder import Batch, Decoder
from ff_memories.model.files import checkpoint
from ff_memories.paper.keys import mutations, trigger_table, triggers
from ff_memories.paper.values import values

TYPES = words(44)  # 48 with fairseq's four specials

VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "fused attention, not zipped": {"style": "fused"},
    "current format": {"style": "current"},
    "untied tail projections": {"tie_adaptive_proj": False},
    "untied softmax": {"tie_adaptive_weights": False, "tie_adaptive_proj": False},
    "adaptive softmax only": {"adaptive_input": False, "tie_adaptive_weights": False, "tie_adaptive_proj": False},
    "plain": {"adaptive": False},
    "plain, tied": {"adaptive": False, "share_decoder_input_output_embed": True},
    "learned positions": {"decoder_learned_pos": True},
    "final norm": {"no_decoder_final_norm": False},
    "unscaled embedding": {"no_scale_embedding": True},
    "one layer, four heads": {"decoder_layers": 1, "decoder_attention_heads": 4},
    "deep and wide": {"decoder_layers": 7, "decoder_ffn_embed_dim": 50},
    "input and output of other widths": {
        "adaptive": False, "decoder_input_dim": 8, "decoder_output_dim": 12
    },
}  # fmt: skip


def fairseq_layers(model, tokens):
    """Residuals, feed-forward outputs, pre-activations and outputs of every layer, by hooks on fairseq's modules."""
    seen = {"residual": [], "coefficients": [], "ffn": [], "output": []}
    hooks = []
    for layer in model.decoder.layers:
        hooks += [
            layer.final_layer_norm.register_forward_pre_hook(lambda m, i: seen["residual"].append(i[0].clone())),
            layer.fc1.register_forward_hook(lambda m, i, o: seen["coefficients"].append(torch.relu(o))),
            layer.fc2.register_forward_hook(lambda m, i, o: seen["ffn"].append(o.clone())),
            layer.register_forward_hook(lambda m, i, o: seen["output"].append(o[0].clone())),
        ]
    with torch.no_grad():
        out = model(tokens)
        if model.decoder.adaptive_softmax is None:  # fairseq casts logits to float32 here, whatever the model's type
            log_probabilities = torch.log_softmax(out[0], -1)
        else:
            log_probabilities = model.get_normalized_probs(out, log_probs=True, sample=None)
    for hook in hooks:
        hook.remove()
    return {k: [t.transpose(0, 1) for t in v] for k, v in seen.items()}, log_probabilities


def close(ours, theirs, tolerance):
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= tolerance * theirs.abs().max()


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_tensor_of_the_forward_pass_equals_fairseqs(tmp_path, variant, dtype, tolerance):
    model, _ = write_checkpoint(tmp_path / "model.pt", TYPES, seed=3, **VARIANTS[variant])
    model = model.to(dtype)
    if model.decoder.embed_positions is not None and hasattr(model.decoder.embed_positions, "weights"):
        model.decoder.embed_positions.weights = model.decoder.embed_positions.weights.to(dtype)
    decoder = Decoder(*convert(tmp_path / "model.pt", tmp_path / "m.safetensors", tmp_path / "m.json"), dtype=dtype)
    rng = np.random.default_rng(0)
    for lengths in ([1, 5, 5, 9], [3]):
        sentences = [rng.integers(3, 48, n) for n in lengths]
        batch, row = Batch.pack(sentences), 0
        ours = {"residual": [], "coefficients": [], "ffn": [], "output": []}
        x = decoder.embed(batch)
        for layer in decoder.layers:
            residual = layer.attend(x, batch)
            coefficients = layer.coefficients(residual)
            ffn = layer.combine(coefficients)
            x = residual + ffn
            for name, tensor in zip(ours, (residual, coefficients, ffn, x), strict=True):
                ours[name].append(tensor)
        log_probabilities = decoder.vocabulary.log_probabilities(decoder.vocabulary.output(x))
        torch.testing.assert_close(decoder.forward(batch), x)
        for sentence in sentences:
            tokens = torch.tensor([[2, *sentence]])
            theirs, expected = fairseq_layers(model, tokens)
            rows = slice(row, row + tokens.shape[1])
            for name, tensors in ours.items():
                for mine, other in zip(tensors, theirs[name], strict=True):
                    close(mine[rows], other[0], tolerance)
            close(log_probabilities[rows], expected[0], tolerance)
            row = rows.stop


def test_parameters_are_counted_as_fairseq_counts_them(tmp_path):
    for variant, options in VARIANTS.items():
        model, _ = write_checkpoint(tmp_path / "model.pt", TYPES, **options)
        unique = {p.data_ptr(): p.numel() for p in model.parameters()}
        description, _ = checkpoint.read(tmp_path / "model.pt")
        assert description.parameters == sum(unique.values()), variant


def test_tied_weights_are_stored_once_and_come_back_the_same(tmp_path):
    write_checkpoint(tmp_path / "model.pt", TYPES)
    description, weights = checkpoint.read(tmp_path / "model.pt")
    assert description.aliases
    again, back = convert(tmp_path / "model.pt", tmp_path / "m.safetensors", tmp_path / "m.json")
    assert again == description
    assert set(back) == set(weights)
    for name in weights:
        assert torch.equal(back[name], weights[name]), name


@pytest.fixture
def small(tmp_path):
    """A decoder and a corpus, some of whose sentences stand in it twice."""
    write_checkpoint(tmp_path / "model.pt", TYPES, seed=5)
    rng = np.random.default_rng(5)
    sentences = [rng.integers(3, 48, n) for n in rng.integers(1, 12, 60)]
    sentences += sentences[:9]
    offsets = np.cumsum([0, *map(len, sentences)])
    return Decoder(*checkpoint.read(tmp_path / "model.pt")), Corpus(np.concatenate(sentences), offsets, len(sentences))


@pytest.mark.parametrize("keys", [[(1, 3)], [(2, 0), (1, 5), (2, 23)], [(3, 1), (1, 1)]])
def test_keys_asked_for_have_the_triggers_they_have_among_all_and_deeper_layers_do_not_run(small, keys, monkeypatch):
    (decoder, corpus), options = small, Triggers(top=4, positions="inner")
    whole, some = (
        trigger_table.table(triggers.trigger_examples(decoder, corpus, [(0, len(corpus))], options, keys=k), corpus)
        for k in (None, keys)
    )
    assert some.select("layer", "key").unique().sort("layer", "key").rows() == sorted(keys)
    asked = pl.Series([(layer, key) in keys for layer, key in whole.select("layer", "key").iter_rows()])
    assert some.equals(whole.filter(asked))
    deepest = max(layer for layer, _ in keys)
    for block in decoder.layers[deepest:]:
        monkeypatch.setattr(block, "attend", None)
    monkeypatch.setattr(decoder.layers[deepest - 1], "combine", None)  # nor the last one's second matrix
    again = triggers.trigger_examples(decoder, corpus, [(0, len(corpus))], options, keys=keys)
    assert trigger_table.table(again, corpus).equals(some)


@pytest.mark.parametrize("positions, lengths", [("inner", []), ("released", [0]), ("full", [1])])
def test_sentences_of_one_token_have_the_prefixes_that_positions_say(small, positions, lengths):
    decoder, corpus = small
    options = Triggers(top=1000, positions=positions, per_sentence="all")
    found = trigger_table.table(triggers.trigger_examples(decoder, corpus, [(0, len(corpus))], options), corpus)
    assert sorted(set(found["position"].to_numpy()[corpus.lengths[found["sentence"].to_numpy()] == 1])) == lengths


def test_how_many_values_are_projected_at_once_decides_nothing(small, monkeypatch):
    decoder, _ = small
    wanted = np.random.default_rng(1).integers(-1, 48, (3, 24))
    once = values.value_predictions(decoder, decoder.vocabulary, wanted)
    monkeypatch.setattr(values, "TILE", 7)
    again = values.value_predictions(decoder, decoder.vocabulary, wanted)
    for types, found in again.items():
        assert (found.top == once[types].top).all() and (found.rank == once[types].rank).all()
        assert ((found.rank == -1) == (wanted == -1)).all()
        assert found.probability == pytest.approx(once[types].probability, rel=1e-5)


@pytest.mark.parametrize("shards", [2, 3, 50])
def test_shards_of_mutated_triggers_have_the_bits_of_all(small, shards):
    decoder, corpus = small
    best = triggers.trigger_examples(decoder, corpus, [(0, len(corpus))], Triggers(top=20, positions="inner"))
    found = trigger_table.table(best, corpus)
    options = Mutations(keys_per_layer=24, top=20, random="any", single_token="skip")
    rows, _ = mutations.sample(found, 3, 24, options, 1, 72)
    work = lambda shard: mutations.table(decoder, corpus, rows, options, 40, shard)
    own, whole = [work((number, shards)) for number in range(1, shards + 1)], work((1, 1))
    assert len(whole) > 200 and sum(map(len, own)) == len(rows)
    assert pl.concat(own).sort("layer", "key", "rank", "mutation").equals(whole)
