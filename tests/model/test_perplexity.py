"""The model's perplexity on its validation text, against the libraries' own probabilities of every token."""

import json
import math
from typing import Any

import gguf_files
import numpy as np
import pytest
import tiny
import torch
from factories import words
from pipeline import config, run_steps, write_inputs
from reference import Reference

from ff_memories import api
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.model import perplexity
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


def test_in_windows_it_is_of_running_text_with_half_a_window_before_it(run, monkeypatch):
    reference, decoder, corpus = run
    monkeypatch.setattr(perplexity, "WINDOW", 20)
    found = perplexity.in_windows(decoder, corpus, Dictionary(words(44)), sentences=5)
    text = corpus.tokens[corpus.offsets[corpus.train] :]
    assert (found["windows"], found["window"]) == (3, 20) and found["tokens"] == 30
    total, begins = 0.0, corpus.offsets[corpus.train :] - corpus.offsets[corpus.train]
    for place in (0, (len(text) - 20) // 2, len(text) - 20):
        first = begins[begins <= place].max()
        window = list(map(int, text[first : first + 20]))
        residual, _, update = reference.layers(window)[-1]
        for at in range(10, len(window)):
            total -= float(reference.log_probabilities(residual[at] + update[at], final=True)[window[at]])
    assert found["perplexity"] == pytest.approx(math.exp(total / 30), rel=1e-4)


def test_in_windows_of_a_model_of_transformers_it_is_that_of_the_text_tokenised_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gguf_files.save("m.gguf")
    made, text = api.load_model("m.gguf"), tiny.WORDS.split()[:60]
    cut = [np.array(made.dictionary.encode(text[i : i + 7]), dtype=np.int32) for i in range(0, 56, 7)]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in cut])])
    found = perplexity.in_windows(made.decoder, store.Corpus(np.concatenate(cut), offsets, 0), made.dictionary, 1)
    whole = made.dictionary.encode(text[:56])[: found["window"]]
    made.close()  # the model is the library's own again
    library: Any = made.decoder
    theirs = library.model.double()(torch.tensor([[made.decoder.start, *whole]])).logits[0].log_softmax(-1)
    half = len(whole) // 2
    own = [-theirs[at, token].item() for at, token in enumerate(whole)][half:]
    assert found["perplexity"] == pytest.approx(math.exp(np.mean(own)), rel=1e-3)
    assert (found["windows"], found["tokens"]) == (1, len(whole) - half)


def test_a_text_shorter_than_a_window_is_one_window(run):
    _, decoder, corpus = run
    short = store.Corpus(corpus.tokens, corpus.offsets, len(corpus) - 1)
    found = perplexity.in_windows(decoder, short, Dictionary(words(44)))
    length = int(corpus.lengths[-1])
    assert (found["windows"], found["tokens"]) == (1, length - length // 2) and length < found["window"]
