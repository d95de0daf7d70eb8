"""Test how rare a key's best pattern is among random prefixes, with p-values corrected for all patterns tried.

The search tries thousands of candidates that a key's own prefixes propose, so a small p-value of the best one means
little by itself. The same search over many sets of random prefixes shows how
small it gets by chance, with all dependence between candidates: the min-p correction of Westfall and Young (1993).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc

from ff_memories.annotate.study import FEWEST

Draws = Callable[[int], np.random.Generator]  # for sets of so many prefixes
SETS = 2000
LIFT = 3  # a pattern is at least three times as frequent in a key as in random prefixes


@dataclass(frozen=True)
class Candidate:
    """A pattern of a key, or a candidate for one."""

    words: tuple[str, ...]  # as printed
    kind: str
    members: frozenset[int]  # the indices of the prefixes that have it
    p: float  # probability that at least as many random prefixes have it, before correction


def tail(counts: ArrayLike, shown: int, chance: ArrayLike) -> np.ndarray:
    """Return the exact binomial probability that ``counts`` or more of ``shown`` prefixes have a pattern."""
    return bdtrc(np.asarray(counts, dtype=np.float64) - 1, shown, np.asarray(chance))


def frequent(counts: np.ndarray, shown: int, chance: np.ndarray) -> np.ndarray:
    """Say which candidates are frequent enough to report: in three prefixes, and well above chance."""
    return (counts >= FEWEST) & (counts >= LIFT * shown * chance)


class Correction:
    """Correct the p-values of a search by the same search over random sets of prefixes, drawn on demand.

    ``smallest`` is the search: it gives the smallest p-value in a set of prefixes, which are indices into the pool.
    """

    def __init__(self, smallest: Callable[[np.ndarray], float], pool: int, rng_of: Draws):
        self._smallest, self._pool, self._rng_of = smallest, pool, rng_of
        self._null: dict[int, np.ndarray] = {}

    def __call__(self, p: float, shown: int) -> float:
        """Return the share of random sets of ``shown`` prefixes whose best candidate is as good as ``p``."""
        if shown not in self._null:
            rng = self._rng_of(shown)
            sets = (rng.choice(self._pool, size=min(shown, self._pool), replace=False) for _ in range(SETS))
            self._null[shown] = np.sort([self._smallest(indices) for indices in sets])
        null = self._null[shown]
        return (1 + int(np.searchsorted(null, p, side="right"))) / (1 + len(null))


def distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Keep the patterns that add something new, least probable first.

    A candidate that shares words with a kept one (such as a part of its phrase) must add three prefixes of its own. Any
    other candidate must not have almost the same prefixes as a kept one.
    """
    kept: list[Candidate] = []
    for new in sorted(candidates, key=lambda c: (c.p, -len(c.words), c.kind, c.words)):
        akin = [k for k in kept if set(k.words) & set(new.words)]
        added = new.members - frozenset().union(*(k.members for k in akin))
        twins = any(len(k.members & new.members) >= 0.8 * len(k.members | new.members) for k in kept)
        if not twins and (not akin or len(added) >= FEWEST):
            kept.append(new)
    return kept
