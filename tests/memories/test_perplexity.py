"""The model's perplexity on its validation text, against fairseq's own probabilities, one sentence at a time."""

import json
import math

import numpy as np
import pytest
from factories import words
from pipeline import config, run_steps, write_inputs
from reference import Reference

from ff_memories.corpus import store
from ff_memories.memories import perplexity
from ff_memories.model.decoder import Decoder
from ff_memories.model.files import converted


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder, types = tmp_path_factory.mktemp("perplexity"), words(44)
    model = write_inputs(folder, types, seed=4, decoder_layers=2)
    out = run_steps(folder, config())
    decoder = Decoder(*converted.load(out / "model.safetensors", out / "model.json"))
    return Reference(model, types), decoder, store.read(out / "corpus.safetensors")


def test_it_is_that_of_fairseqs_own_probabilities(run):
    reference, decoder, corpus = run
    total = 0.0
    for index in range(corpus.train, len(corpus)):
        tokens = list(map(int, corpus.sentence(index)))
        residual, _, update = reference.layers(tokens)[-1]
        for place, token in enumerate(tokens):
            total -= float(reference.log_probabilities(residual[place] + update[place], final=True)[token])
    found = perplexity.perplexity(decoder, corpus, 1, 64)
    assert found["tokens"] == corpus.lengths[corpus.train :].sum()
    assert found["sentences"] == len(corpus) - corpus.train
    assert found["perplexity"] == pytest.approx(math.exp(total / found["tokens"]), rel=1e-4)
    assert perplexity.perplexity(decoder, corpus, 1, 4096)["perplexity"] == pytest.approx(found["perplexity"], rel=1e-5)
    json.dumps(found)


def test_a_long_text_is_sampled_and_an_empty_one_has_none(run):
    _, decoder, corpus = run
    assert perplexity.perplexity(decoder, corpus, 1, 64, sentences=7)["sentences"] == 7
    nothing = store.Corpus(corpus.tokens, corpus.offsets, len(corpus))
    found = perplexity.perplexity(decoder, nothing, 1, 64)
    assert (found["perplexity"], found["tokens"], found["sentences"]) == (None, 0, 0)
    assert np.isfinite(perplexity.perplexity(decoder, corpus, 2, 64)["perplexity"])
