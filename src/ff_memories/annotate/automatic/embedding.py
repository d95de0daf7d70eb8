"""Measure the closeness of words by a model's embeddings, and count words."""

import numpy as np
import torch

from ff_memories.corpus.store import Corpus


def closeness_vectors(vectors: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """Return unit vectors (n, d) float32 whose products are the cosines around ``centre`` (d,).

    A language model's embeddings share one large component, which would make all words look alike.
    """
    return torch.nn.functional.normalize(vectors.float() - centre.float(), dim=1)


def train_counts(corpus: Corpus, vocab: int, before: int | None = None) -> np.ndarray:
    """Return each type's number of occurrences (vocab,) in the training text, or among its sentences' first tokens.

    Args:
        corpus: token ids.
        vocab: size of the dictionary.
        before: count only positions 1..before-1 of every sentence.
    """
    tokens = corpus.tokens[: corpus.offsets[corpus.train]]
    if before is not None:
        starts = corpus.offsets[: corpus.train]
        ends = corpus.offsets[1 : corpus.train + 1]
        tokens = np.concatenate([tokens[(starts + i)[starts + i < ends]] for i in range(before - 1)])
    return np.bincount(tokens, minlength=vocab)
