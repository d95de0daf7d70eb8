"""Index the text of triggers: for every token, the triggers that contain it (its postings), and where in them.

A trigger has a number, ordinal · top + rank - 1, where top is the number of triggers per key.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ff_memories.report.gallery.material import Material

PLACE, NUMBER = 6, 34  # bits of an occurrence's place and trigger; its token has the others
LAST = 1 << PLACE  # is added to the last place in a trigger
MOST = 50_000  # triggers of an entry: a token in more has several
ROWS = 1 << 16  # triggers read at once


def top(material: Material) -> int:
    """Return how many numbers each key has for its triggers."""
    return int(material.triggers["rank"].max() or 0)  # type: ignore[arg-type]


def tokens(material: Material) -> list[int]:
    """Return the ids of all tokens in the shown text, ascending."""
    found = np.zeros(len(material.words), dtype=bool)
    for _, at, _ in _shown(material):
        found[material.corpus.tokens[at]] = True
    return np.flatnonzero(found).tolist()


def postings(material: Material, order: list[int]) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield the index of the shown text as (token, triggers, places); one token may have several entries.

    Triggers are numbers in ascending order, the first and then differences. Places count from a trigger's last token,
    0; ``LAST`` is added to the last one in each trigger.

    Args:
        order: ids in the order of the index, each once.
    """
    found = _occurrences(material, np.array(order, dtype=np.int64))
    edges = np.searchsorted(found, np.arange(len(order) + 1, dtype=np.uint64) << np.uint64(PLACE + NUMBER))
    for token, (first, end) in zip(order, pairwise(edges.tolist()), strict=True):
        trigger = found[first:end] >> np.uint64(PLACE)
        last = np.append(trigger[1:] != trigger[:-1], True)
        places = (found[first:end] & np.uint64(LAST - 1)).astype(np.int64) + LAST * last
        ends = np.flatnonzero(last) + 1
        numbers = (trigger[last] & np.uint64((1 << NUMBER) - 1)).astype(np.int64)
        for start in range(0, len(ends), MOST):
            own = slice(start, start + MOST)
            begin = ends[start - 1] if start else 0
            yield token, np.diff(numbers[own], prepend=0).tolist(), places[begin : ends[own][-1]].tolist()


def _shown(material: Material) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield some triggers, where all their shown tokens are in the corpus, and how many each has."""
    first, end = material.windows
    for start in range(0, len(first), ROWS):
        own = slice(start, min(start + ROWS, len(first)))
        lengths = end[own] - first[own]
        ends = lengths.cumsum()
        yield own, np.arange(ends[-1]) + np.repeat(first[own] - ends + lengths, lengths), lengths


def _occurrences(material: Material, order: np.ndarray) -> np.ndarray:
    """Return each token of each shown trigger as one number: token's order, trigger, place. (occurrences,) sorted."""
    (first, end), text, triggers = material.windows, material.corpus.tokens, material.triggers
    place_of = np.zeros(len(material.words), dtype=np.uint64)
    place_of[order] = np.arange(len(order))
    number = material.ordinals(triggers) * top(material) + triggers["rank"].to_numpy().astype(np.int64) - 1
    starts = np.concatenate([[0], np.cumsum(end - first)])
    found = np.empty(int(starts[-1]), dtype=np.uint64)
    for own, at, lengths in _shown(material):
        low = (np.repeat(number[own], lengths) << PLACE) + np.repeat(end[own] - 1, lengths) - at
        high = place_of[text[at]] << np.uint64(PLACE + NUMBER)
        found[starts[own.start] : starts[own.stop]] = high | low.astype(np.uint64)
    found.sort()
    return found
