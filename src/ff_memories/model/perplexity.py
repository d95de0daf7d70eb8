"""Measure how well the run's model predicts its validation text: read every claim with this number in mind."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch

from ff_memories.base.draws import generator
from ff_memories.base.progress import Progress
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.tokenizer import Types
from ff_memories.model.batches import batching
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.vocabulary import Vocabulary

SENTENCES = 2000  # validation sentences at most
WINDOW = 1024  # tokens of a window at most
OF_UNTRAINED = 200  # validation sentences on which a drawn model's perplexity is measured, at most
PASSED = 12  # tokens in windows for every sentence that is read by itself


def perplexity(
    decoder: LanguageModel, corpus: Corpus, seed: int, batch_tokens: int, sentences: int = SENTENCES
) -> dict[str, Any]:
    """Return the model's perplexity on validation sentences, each by itself after ``</s>``, as in the experiments.

    Every token of a sentence counts, its end does not. ``perplexity`` is null without a token; beside it stands what it
    was measured on: ``tokens``, ``sentences``, ``context``.
    """
    every = np.arange(corpus.train, len(corpus))
    chosen = np.sort(generator(seed, "perplexity").permutation(every)[:sentences])
    lengths = corpus.lengths[chosen]
    nats, vocabulary = np.zeros(len(chosen)), decoder.vocabulary.reading("adaptive")

    def run(part: np.ndarray) -> None:
        of_tokens = surprise(decoder, vocabulary, [corpus.sentence(chosen[i]) for i in part])
        sentence = torch.repeat_interleave(torch.arange(len(part)), torch.from_numpy(lengths[part]))
        nats[part] = torch.zeros(len(part), dtype=torch.double).index_add_(0, sentence, of_tokens).numpy()

    batching.run_batches(run, batching.by_length(lengths, batch_tokens), "sentences", "perplexity")
    context = "validation sentences, each by itself"
    return _found(nats.tolist(), lengths.tolist()) | {"sentences": len(chosen), "context": context}


def in_windows(decoder: LanguageModel, corpus: Corpus, types: Types, sentences: int = SENTENCES) -> dict[str, Any]:
    """Return the model's perplexity on running validation text, as it is usually reported: with context.

    Validation sentences are joined by a blank, in the text's order. Windows of as many tokens as the model takes
    (``WINDOW`` at most) begin at sentences spread evenly over the text. The second half of each counts, with the first
    half and the start token as context. A joint is tokenised again; ``window`` is the tokens of a window. The number of
    windows follows from how many sentences ``perplexity`` reads at most.
    """
    vocabulary, begins = decoder.vocabulary.reading("adaptive"), corpus.offsets[corpus.train :]
    length, total = min(WINDOW, decoder.max_tokens), int(begins[-1] - begins[0])
    number = max(min(total, 1), min(total // length, PASSED * sentences // length))
    places = begins[0] + np.linspace(0, max(0, total - length), number).astype(int)
    nats, tokens = list[float](), list[int]()
    with torch.inference_mode(), Progress(number, "windows", "perplexity") as progress:
        for first in np.searchsorted(begins, places, side="right") - 1:
            end = min(np.searchsorted(begins, begins[first] + length), len(begins) - 1)
            texts = (types.words(corpus.sentence(i).tolist()) for i in range(corpus.train + first, corpus.train + end))
            window = np.array(types.encode(chain.from_iterable(texts)), dtype=np.int32)[:length]
            counted = surprise(decoder, vocabulary, [window])[len(window) // 2 :]
            nats.append(counted.sum().item())
            tokens.append(len(counted))
            progress.step(1)
    context = "joined validation sentences; the second half of a window counts, with the first as context"
    return _found(nats, tokens) | {"windows": number, "window": length, "context": context}


def surprise(decoder: LanguageModel, vocabulary: Vocabulary, sentences: Sequence[np.ndarray]) -> torch.Tensor:
    """Return -log p (tokens,) in float64 of every token of sentences that are sorted by length."""
    batch = decoder.pack(sentences)
    x = decoder.forward(batch)
    first = batch.positions == batch.positions[0]
    inner = ~first.roll(-1)  # the last row of a sentence predicts its end
    prediction = vocabulary.read(x[inner], batch.tokens.roll(-1)[inner], rank=False)
    return -prediction.target_probability.double().log().cpu()


def _found(nats: list[float], tokens: list[int]) -> dict[str, Any]:
    """Return exp of the mean surprise of a token, to six digits, None without a token; and the number of tokens.

    ``nats``: the sums of -log p of the tokens of each sentence or window.
    """
    total = sum(tokens)
    mean = float(f"{math.exp(min(math.fsum(nats) / total, 700)):.6g}") if total else None
    return {"perplexity": mean, "tokens": total}
