"""Measure how well the run's model predicts its validation text: read every claim with this number in mind."""

import math
from typing import Any

import numpy as np
import torch

from ff_memories.base.progress import Progress
from ff_memories.base.seeds import generator
from ff_memories.corpus.store import Corpus
from ff_memories.memories.search import batching
from ff_memories.model.batches.buffers import halved, retry_smaller
from ff_memories.model.decoder import LanguageModel

SENTENCES = 2000  # validation sentences at most


def perplexity(
    decoder: LanguageModel, corpus: Corpus, seed: int, batch_tokens: int, sentences: int = SENTENCES
) -> dict[str, Any]:
    """Return the model's perplexity on validation sentences, each by itself after ``</s>``, as in the experiments.

    Every token of a sentence counts, its end does not.

    Args:
        seed: of the sample of sentences.
        sentences: how many to read; all, where there are fewer.

    Returns:
        ``perplexity``, null without a token, and what it was measured on: ``tokens``, ``sentences``, ``context``.
    """
    every = np.arange(corpus.train, len(corpus))
    chosen = np.sort(generator(seed, "perplexity").permutation(every)[:sentences])
    lengths = corpus.lengths[chosen]
    nats, vocabulary = np.zeros(len(chosen)), decoder.vocabulary.reading("adaptive")

    def run(part: np.ndarray) -> None:
        batch = decoder.pack([corpus.sentence(chosen[i]) for i in part])
        x = decoder.embed(batch)
        for layer in decoder.layers:
            x = layer(x, batch).output
        first = batch.positions == batch.positions[0]
        inner = ~first.roll(-1)  # the last row of a sentence predicts its end
        found = vocabulary.read(x[inner], batch.tokens.roll(-1)[inner], rank=False)
        own = torch.repeat_interleave(torch.arange(len(part)), torch.from_numpy(lengths[part]))
        surprise = -found.target_probability.double().log().cpu()
        nats[part] = torch.zeros(len(part), dtype=torch.double).index_add_(0, own, surprise).numpy()

    order = np.argsort(lengths, kind="stable")
    with torch.inference_mode(), Progress(len(chosen), "sentences", "perplexity") as progress:
        for part in batching.sequences(lengths, order, batch_tokens):
            retry_smaller(run, part, len(part), halved)
            progress.step(len(part))
    tokens = int(lengths.sum())
    mean = math.fsum(nats) / tokens if tokens else None
    return {
        "perplexity": None if mean is None else float(f"{math.exp(min(mean, 700)):.6g}"),
        "tokens": tokens,
        "sentences": len(chosen),
        "context": "validation sentences, each by itself",
    }
