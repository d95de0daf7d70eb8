"""A sentence's numbers are those of the sentence by itself, whatever else its batch holds: with every kind of rotary
positions, and on both sides of every length that a config names."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import tiny
import torch
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from ff_memories.audit.references.transformers_oracle import TransformersOracle
from ff_memories.base import arithmetic
from ff_memories.base.errors import UserError
from ff_memories.corpus.store import Corpus
from ff_memories.inputs.models import proved_model
from ff_memories.model import interventions
from ff_memories.model.batches import batching
from ff_memories.model.families import proof
from ff_memories.model.transformer import hooked
from ff_memories.model.transformer.describe import longer_contexts
from ff_memories.paper.keys import mutations, trigger_table, triggers

LIMIT = 13  # the original positions, of 60 in all; no multiple of what sentences are padded to
LENGTHS = [1, 5, 5, 11, 12, 12, 13, 13, 16, 30, 58, 59]  # tokens; the start token is one more

SCALED = {"factor": 4.0, "rope_theta": 100.0}
OLD = SCALED | {"original_max_position_embeddings": LIMIT}
ROPES = {  # type -> parameters
    "default": lambda half: {"rope_theta": 100.0},
    "linear": lambda half: SCALED,
    "dynamic": lambda half: SCALED,
    "yarn": lambda half: OLD,
    "llama3": lambda half: OLD | {"low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": lambda half: (
        OLD | {"short_factor": [1.0] * half, "long_factor": np.linspace(1.5, 4, half).tolist(), "factor": 2.0}
    ),
    "proportional": lambda half: SCALED,
}
UNKNOWN = {("phi3", kind) for kind in ROPES if kind not in ("default", "longrope", "yarn")}  # to its config class
UNKNOWN |= {
    ("phi3", "yarn"),
    ("falcon", "longrope"),
    ("phi", "proportional"),
}  # the last rotates more than phi's part of a head
ROTARY = [name for name in tiny.CONFIGS if name.split(",")[0] not in ("gpt2", "opt", "gptj", "bloom")]


def rotary(name, kind, **change):
    """Return a family's small model with rotary positions of a type."""
    half = int(tiny.model(name, change=change).base_model.rotary_emb.inv_freq.numel()) if name != "gemma3" else 8
    parameters = {"rope_type": kind, **ROPES[kind](half)}
    if name.startswith(("gpt_neox", "phi")) and name != "phi3":
        parameters["partial_rotary_factor"] = 2 * half / (tiny.MODEL // tiny.HEADS)
    if name == "gemma3":
        parameters = dict.fromkeys(("full_attention", "sliding_attention"), parameters)
    if name == "phi3":  # its config has a default that counts more
        change["original_max_position_embeddings"] = LIMIT
    return tiny.model(name, change={"rope_parameters": parameters, **change})


def sentences(lengths=LENGTHS):
    rng = np.random.default_rng(3)
    return [rng.integers(2, tiny.TYPES, n) for n in lengths]


def largest_difference(ours, theirs):
    return float((ours - theirs).abs().max() / theirs.abs().max())


def test_every_type_of_transformers_is_tried():
    assert set(ROPES) == set(ROPE_INIT_FUNCTIONS) | {"default"}


@pytest.mark.slow
@pytest.mark.parametrize("name, kind", [pair for pair in product(ROTARY, ROPES) if pair not in UNKNOWN])
def test_a_batch_gives_what_each_sentence_gives_alone(name, kind):
    made = rotary(name, kind)
    assert tiny.analysed(made).limits == ((LIMIT,) if kind == "longrope" else ())
    gives_what_each_sentence_gives_alone(name, made)


WINDOWS = {"mistral": {}, "phi3": {}, "gemma2": {}, "gemma3": {}}
WINDOWS |= {name: {"use_sliding_window": True, "max_window_layers": 1} for name in ("qwen2", "qwen3")}
WINDOWS["smollm3"] = {"use_sliding_window": True, "no_rope_layers": [1, 0, 1],
                      "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}  # fmt: skip


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("name", WINDOWS)
def test_sentences_longer_than_a_window_give_what_they_give_alone(name, portable, monkeypatch):
    monkeypatch.setattr(arithmetic, "portable", lambda: portable)
    made = tiny.model(name, change=WINDOWS[name] | {"sliding_window": 7})
    proof.prove(made, tiny.family(name))
    gives_what_each_sentence_gives_alone(name, made)
    ours, texts = tiny.analysed(made), sentences()
    nothing = lambda layer, here, m: m.new_zeros(len(here), tiny.MODEL)
    with torch.inference_mode():
        ends = interventions.run_changed(ours, texts, np.arange(len(texts)), np.full(len(texts), 2), nothing)
    assert largest_difference(ends.changed, ends.unchanged) < 1e-5


def gives_what_each_sentence_gives_alone(name, made):
    row, texts = tiny.family(name), sentences()
    ours = tiny.analysed(made, row)
    seen, output = tiny.run(ours, texts)
    logits = proof.readout(ours.model, ours.model.get_submodule(row.final_norm), output)
    start = 0
    for text in texts:
        truths, expected = tiny.alone(made, row, text)
        rows = slice(start, start + len(text) + 1)
        start = rows.stop
        for layer, truth in zip(seen, truths, strict=True):
            assert largest_difference(layer.coefficients[rows], truth.coefficients) < 1e-5
        assert largest_difference(logits[rows], expected) < 1e-5


def corpus_of(texts):
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return Corpus(np.concatenate(texts).astype(np.int32), offsets, len(texts))


@pytest.fixture(params=["phi3", "gemma3"])
def long(request):
    """A model that chooses its factors by a sentence's length, read by us, and what it computes for each sentence."""
    made = rotary(request.param, "longrope")
    texts = sentences()
    truths = [tiny.alone(made, tiny.family(request.param), text)[0] for text in texts]
    return tiny.analysed(made), corpus_of(texts), truths


@pytest.mark.parametrize("tokens", [20, 48, 4096])
def test_the_best_coefficients_do_not_depend_on_how_sentences_are_packed(long, tokens):
    ours, corpus, truths = long
    best = triggers.trigger_examples(ours, corpus, batching.blocks(corpus.lengths), top=3, batch_tokens=tokens)
    listed = trigger_table.table(best, corpus)
    for layer in range(tiny.LAYERS):
        # prefixes of 1 to N - 1 tokens, of each sentence the best
        each = torch.stack([t[layer].coefficients[1:-1].amax(0) for t in truths if len(t[layer].coefficients) > 2])
        expected = each.clamp(min=0).sort(0, descending=True).values[:3].t()
        rows = listed.filter(layer=layer + 1).sort("key", "rank")
        found = np.zeros(expected.shape, np.float32)
        found[rows["key"].to_numpy(), rows["rank"].to_numpy() - 1] = rows["coefficient"].to_numpy()
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-6)


def test_two_sentences_that_begin_alike_keep_their_own_coefficients(long):
    """Equal prefixes share a coefficient, but not where the model reads them otherwise."""
    ours, _, _ = long
    short, other = sentences([8])[0], sentences([40])[0]
    texts = [short, np.concatenate([short[:4], other])]
    best = triggers.trigger_examples(ours, corpus_of(texts), [(0, 2)], top=9, per_sentence="all")
    listed = trigger_table.table(best, corpus_of(texts)).filter(position=3, layer=2)
    pairs = listed.pivot("sentence", index="key", values="coefficient").drop_nulls()
    assert len(pairs) > 9
    assert (pairs["0"] != pairs["1"]).all()
    with pytest.raises(UserError, match="in sentences of over 13 tokens"):
        triggers.trigger_examples(ours, corpus_of(texts), [(0, 2)], top=9, duplicates="drop")


def test_a_prefix_has_the_numbers_that_it_has_in_its_sentence(long):
    ours, corpus, truths = long
    at = [(sentence, j) for sentence in range(len(corpus)) for j in range(1, corpus.lengths[sentence] + 1)][::3]
    at.sort(key=lambda place: place[1])
    seen, _ = tiny.run(ours, [corpus.sentence(sentence)[:j] for sentence, j in at])
    last = np.cumsum([j + 1 for _, j in at]) - 1
    for layer in range(tiny.LAYERS):
        expected = torch.stack([truths[sentence][layer].coefficients[j] for sentence, j in at])
        assert largest_difference(seen[layer].coefficients[last], expected) < 1e-5


@pytest.mark.parametrize("tokens", [24, 4096])
def test_a_prefix_without_its_last_token_has_the_numbers_of_the_shorter_prefix(long, tokens):
    ours, corpus, truths = long
    places = [(s, j) for s in range(len(corpus)) for j in range(2, corpus.lengths[s] + 1)]
    rows = pl.DataFrame([{"layer": 1 + (s + j) % tiny.LAYERS, "key": (7 * j + s) % tiny.KEYS, "sentence": s,
                          "position": j, "removed": j} for s, j in places])  # fmt: skip
    found = mutations.mutated_coefficients(ours, corpus, rows, tokens)
    expected = [
        float(truths[s][layer - 1].coefficients[j - 1, key])
        for layer, key, s, j in rows.select("layer", "key", "sentence", "position").iter_rows()
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_changed_prefix_starts_from_the_numbers_that_it_has_in_its_sentence(long):
    """A change of nothing leaves the last layer's output as it is."""
    ours, corpus, truths = long
    at = sorted(((s, max(1, int(n) // 2)) for s, n in enumerate(corpus.lengths)), key=lambda place: place[1])
    texts = [corpus.sentence(s)[:j] for s, j in at]
    nothing = lambda layer, here, m: m.new_zeros(len(here), ours.description.model)
    base = np.arange(len(texts))
    with torch.inference_mode():
        ends = interventions.run_changed(ours, texts, base, np.full(len(texts), 2), nothing)
    expected = torch.stack([truths[s][-1].output[j] for s, j in at])
    assert largest_difference(ends.unchanged, expected) < 1e-5
    assert largest_difference(ends.changed, expected) < 1e-5


def test_the_reference_of_audits_runs_a_prefix_as_its_sentence(tmp_path):
    half = tiny.MODEL // tiny.HEADS // 2
    tiny.save(tmp_path / "model", "phi3", original_max_position_embeddings=LIMIT,
              rope_parameters={"rope_type": "longrope"} | ROPES["longrope"](half))  # fmt: skip
    reference = TransformersOracle(tmp_path / "model", "auto", "positive")
    sentence = corpus_of(sentences([40])).sentence(0)
    whole = reference.layers(sentence)
    for j in (3, LIMIT, 30):
        for prefix, expected in zip(reference.layers(sentence[:j]), whole, strict=True):
            torch.testing.assert_close(prefix.m, expected.m[: j + 1], rtol=1e-4, atol=1e-6)
        apart = reference.layers(sentence[:j].view(np.ndarray))[-1].m
        assert (j < LIMIT) == (not torch.allclose(apart, whole[-1].m[: j + 1], rtol=1e-3))
    nothing = torch.zeros(tiny.MODEL, dtype=torch.float64)
    changed = reference.changed(sentence[:5], reference.layers(sentence[:5]), 2, nothing)
    torch.testing.assert_close(changed.after, whole[-1].output[5], rtol=1e-4, atol=1e-6)


# ---------------------------------------------------------------------------------------------------- proof at load


@pytest.mark.parametrize("name", ["phi3"])
def test_a_model_is_proved_on_both_sides_of_the_lengths_that_its_config_names(name, monkeypatch):
    made = rotary(name, "longrope")
    ours = tiny.analysed(made)
    assert LIMIT in proof.named_lengths(ours) and LIMIT + 1 in proof.named_lengths(ours)
    assert proof.prove_lengths(ours) < 1e-6
    ours = tiny.analysed(made)
    monkeypatch.setattr(ours, "limits", ())  # as if nobody had known
    with pytest.raises(UserError, match=r"a sentence of .* tokens depends on its batch"):
        proof.prove_lengths(ours)


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_every_family_is_proved_to_read_a_sentence_by_itself(name):
    assert proof.prove_lengths(tiny.analysed(tiny.model(name))) < 1e-6


def test_a_folder_is_taken_in_with_that_proof(tmp_path, monkeypatch):
    half = tiny.MODEL // tiny.HEADS // 2
    tiny.save(tmp_path / "model", "phi3", original_max_position_embeddings=LIMIT,
              rope_parameters={"rope_type": "longrope"} | ROPES["longrope"](half))  # fmt: skip
    assert proved_model.take_in(tmp_path / "model").proof.errors["alone"] < 1e-6
    monkeypatch.setattr(hooked, "longer_contexts", lambda config: ())
    with pytest.raises(UserError, match="depends on its batch"):
        proved_model.take_in(tmp_path / "model")


def test_a_model_that_names_no_limit_of_its_factors_is_refused():
    parameters = {"full_attention": {"rope_type": "longrope"}, "sliding_attention": {"rope_type": "default"}}
    with pytest.raises(UserError, match="longrope without original_max_position_embeddings"):
        longer_contexts(SimpleNamespace(rope_parameters=parameters))
