"""Choices that only read otherwise share one run of the model, and what they read is what they would read alone."""

from dataclasses import fields

import numpy as np
import pytest
from factories import convert, words, write_checkpoint

from ff_memories.corpus.store import Corpus
from ff_memories.memories import composition, values
from ff_memories.model.decoder import Decoder

TYPES = words(44)
CHOICES = [("ffn", "active", "adaptive"), ("output", "active", "adaptive"), ("ffn", "all", "flat"),
           ("ffn", "active", "head"), ("ffn", "all", "adaptive")]  # fmt: skip


@pytest.fixture
def model(tmp_path):
    """The files of a model, and a text."""
    write_checkpoint(tmp_path / "model.pt", TYPES, seed=5)
    convert(tmp_path / "model.pt", tmp_path / "model.safetensors", tmp_path / "model.json")
    rng = np.random.default_rng(5)
    sentences = [rng.integers(3, 48, n).astype(np.int32) for n in rng.integers(2, 12, 80)]
    offsets = np.cumsum([0, *map(len, sentences)])
    return tmp_path, Corpus(np.concatenate(sentences), offsets, 20)


def observed(model, layer_prediction, memories, kind, examples=30, precision="float32", kept=None):
    folder, corpus = model
    decoder = Decoder.load(folder / "model.safetensors", folder / "model.json", precision=precision)
    decoder.vocabulary.leave_out([0, 1])
    decoder.vocabulary = decoder.vocabulary.reading(kind)
    drawn = composition.sample_examples(corpus.lengths[20:], 20, examples=examples, sample="per_sentence",
                                        positions="1..N", seed=2)  # fmt: skip
    return composition.observe(
        decoder, corpus, drawn, values.value_tops(decoder, decoder.vocabulary), layer_prediction=layer_prediction,
        memories=memories, batch_tokens=60, kept=kept,
    )  # fmt: skip


def same(one, other):
    for field in fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if not isinstance(left, dict):
            left, right = {"": left}, {"": right}
        assert left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


def test_what_is_remembered_is_what_would_be_computed(model, monkeypatch):
    runs, run = [], composition._run

    def counted(decoder, prefixes, memories, beside):
        runs.append(len(prefixes))
        return run(decoder, prefixes, memories, beside)

    monkeypatch.setattr(composition, "_run", counted)
    alone = [observed(model, *choice) for choice in CHOICES]
    batches = len(runs) // len(CHOICES)
    runs.clear()
    kept = {}
    for choice, wanted in zip(CHOICES, alone, strict=True):
        same(observed(model, *choice, kept=kept), wanted)
    assert len(runs) == batches > 1, "the model ran again"
    observed(model, *CHOICES[0], precision="bfloat16", kept=kept)
    assert len(runs) == 2 * batches, "another precision is another model"
    observed(model, *CHOICES[0], examples=7, kept=kept)
    assert len(runs) > 2 * batches, "other examples are others"


def test_a_model_without_a_file_is_not_remembered(model):
    folder, corpus = model
    decoder, kept = Decoder.load(folder / "model.safetensors", folder / "model.json"), {}
    decoder.source = ""
    composition._looked_at(decoder, [corpus.sentence(0)[:1]], "active", False, kept)
    assert kept == {}
