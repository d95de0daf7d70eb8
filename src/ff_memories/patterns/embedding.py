"""A model's embeddings as a measure of how close two words are, and how often words occur."""

import numpy as np
import torch

from ff_memories.corpus.store import Corpus


def closeness_vectors(vectors: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """Return unit vectors (n, d) float32 whose products are the cosines around ``centre`` (d,).

    All embeddings of a language model share one large direction, which would make every two words look alike.
    """
    return torch.nn.functional.normalize(vectors.float() - centre.float(), dim=1)


def train_counts(corpus: Corpus, vocab: int, before: int | None = None) -> np.ndarray:
    """Return how often each type occurs in the training text (vocab,), or among each sentence's first tokens.

    Args:
        corpus: token ids.
        vocab: size of the dictionary.
        before: count positions 1..before-1 of every sentence only.
    """
    tokens = corpus.tokens[: corpus.offsets[corpus.train]]
    if before is not None:
        starts = corpus.offsets[: corpus.train]
        ends = corpus.offsets[1 : corpus.train + 1]
        tokens = np.concatenate([tokens[(starts + i)[starts + i < ends]] for i in range(before - 1)])
    return np.bincount(tokens, minlength=vocab)
