"""A sentence's numbers are those of the sentence by itself, whatever else its batch holds: with every kind of rotary
positions, and on both sides of every length that a config names."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import tiny
import torch
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from ff_memories.base import arithmetic
from ff_memories.base.errors import UserError
from ff_memories.inputs import proved_model
from ff_memories.model import interventions, proof
from ff_memories.model.transformer import describe

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


@pytest.mark.parametrize("name, kind", [pair for pair in product(ROTARY, ROPES) if pair not in UNKNOWN])
def test_a_batch_gives_what_each_sentence_gives_alone(name, kind):
    made = rotary(name, kind)
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
    row = tiny.family(name)
    ours = tiny.analysed(made, row)
    texts = sentences([n for n in LENGTHS if n <= ours.longest])
    seen, output = tiny.run(ours, texts)
    logits = ours.vocabulary.logits(output)
    start = 0
    for text in texts:
        truths, expected = tiny.alone(made, row, text)
        rows = slice(start, start + len(text) + 1)
        start = rows.stop
        for layer, truth in zip(seen, truths, strict=True):
            assert largest_difference(layer.coefficients[rows], truth.coefficients) < 1e-5
        assert largest_difference(logits[rows], expected) < 1e-5


def test_a_model_with_two_sets_of_rotary_factors_takes_texts_of_the_first_alone():
    ours = tiny.analysed(rotary("phi3", "longrope"))
    assert (ours.longest, ours.max_tokens) == (LIMIT - 1, LIMIT - 1)
    with pytest.raises(UserError, match=f"a sentence of {LIMIT} tokens; the model takes {LIMIT - 1}"):
        ours.pack(sentences([LIMIT]))


# ---------------------------------------------------------------------------------------------------- proof at load


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_every_family_is_proved_to_read_a_sentence_by_itself(name):
    assert proof.prove_lengths(tiny.analysed(tiny.model(name))) < 1e-6


def test_a_model_whose_sentences_depend_on_their_batch_is_refused(tmp_path, monkeypatch):
    half = tiny.MODEL // tiny.HEADS // 2
    tiny.save(tmp_path / "model", "phi3", original_max_position_embeddings=LIMIT,
              rope_parameters={"rope_type": "longrope"} | ROPES["longrope"](half))  # fmt: skip
    assert proved_model.take_in(tmp_path / "model").proof.errors["alone"] < 1e-6
    monkeypatch.setattr(describe, "positions_of", lambda config: config.max_position_embeddings)  # as if nobody knew
    with pytest.raises(UserError, match="depends on its batch"):
        proved_model.take_in(tmp_path / "model")


def test_a_model_that_names_no_limit_of_its_factors_is_refused():
    parameters = {"full_attention": {"rope_type": "longrope"}, "sliding_attention": {"rope_type": "default"}}
    with pytest.raises(UserError, match="longrope without original_max_position_embeddings"):
        describe.positions_of(SimpleNamespace(rope_parameters=parameters))
