"""Which prefixes of a sentence count: the choice ``triggers.positions``."""

import numpy as np

from ff_memories.corpus.store import Corpus

# prefix lengths in a sentence of N tokens: from the first, to N plus the second, inclusive
POSITIONS = {"inner": (1, -1), "released": (0, -1), "full": (1, 0)}


def available(corpus: Corpus, positions: str) -> np.ndarray:
    """Return (sentences,) how many prefixes each training sentence has to offer."""
    low, high = POSITIONS[positions]
    return np.maximum(corpus.lengths[: corpus.train] + high - low + 1, 0)
