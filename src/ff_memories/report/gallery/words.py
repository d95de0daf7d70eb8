"""Write the index of words: the keys that fire on a token, the values that promote it, and its postings.

Entries are sorted by their lower-case words and split into parts of similar size. The first word of each part tells
where to look for a word, which may stand in several parts. The order is JavaScript's, by UTF-16 code units.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from ff_memories.report.gallery import postings
from ff_memories.report.gallery.material import Material

NUMBERS_OF_A_PART = 60_000
TERMS_OF_A_PART = 200_000  # numbers of a part of postings


def fold(word: str) -> str:
    """Return a word's lookup form."""
    return word.lower()


def order(folded: str) -> bytes:
    """Return the sort key of folded words, which follows JavaScript's comparison."""
    return folded.encode("utf-16-be", "surrogatepass")


def word_parts(material: Material) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield each part's first word, folded, and its entries: [word, fires, promotes].

    ``fires``: by the preceding token (empty: none), [ordinal, triggers, ordinal, triggers, ...] of keys with triggers
    that end in both; ``promotes``: [ordinal, place, ...] of the values with the word among their top tokens, place 1 =
    top. Ordinals are stored as differences.
    """
    fires, promotes = _fires(material), _promotes(material)
    entries = (
        [material.words[token], fires.get(token, {}), promotes.get(token, [])]
        for token in _sorted(material, fires.keys() | promotes.keys())
    )
    size = lambda entry: 8 + sum(1 + len(pairs) for pairs in entry[1].values()) + len(entry[2])
    return _cut(entries, size, NUMBERS_OF_A_PART)


def term_parts(material: Material) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield each part's first term, folded, and its entries: [word, triggers, places] (``postings.postings``).

    A term is a token in the shown text of a trigger.
    """
    order = _sorted(material, postings.tokens(material))
    entries = ([material.words[token], *own] for token, *own in postings.postings(material, order))
    return _cut(entries, lambda entry: len(entry[1]) + len(entry[2]), TERMS_OF_A_PART)


def _sorted(material: Material, tokens: Iterable[int]) -> list[int]:
    words = material.words
    return sorted(tokens, key=lambda token: (order(fold(words[token])), words[token]))


def _cut(
    entries: Iterable[list[Any]], size: Callable[[list[Any]], int], most: int
) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield each part's first word, folded, and its entries, of ``most`` numbers in all or a little more."""
    part: list[list[Any]] = []
    numbers = 0
    for entry in entries:
        part.append(entry)
        numbers += size(entry)
        if numbers >= most:
            yield fold(part[0][0]), part
            part, numbers = [], 0
    if part:
        yield fold(part[0][0]), part


def _pairs(groups: np.ndarray, ordinals: np.ndarray, numbers: np.ndarray) -> Iterator[tuple[int, list[int]]]:
    """Yield (first row, [ordinal difference, number, ...]) for each run of equal groups in sorted rows."""
    if not len(groups):
        return
    edges = np.flatnonzero(np.any(groups[1:] != groups[:-1], axis=1)) + 1
    for first, end in pairwise([0, *edges.tolist(), len(groups)]):
        steps = np.diff(ordinals[first:end], prepend=0)
        yield first, np.stack([steps, numbers[first:end]], axis=1).ravel().tolist()


def _fires(material: Material) -> dict[int, dict[str, list[int]]]:
    first, end = material.windows
    before = np.where(end - first > 1, material.corpus.tokens[np.maximum(end, 2) - 2], -1)
    frame = pl.DataFrame(
        {
            "last": material.last_tokens,
            "before": before.astype(np.int64),
            "ordinal": material.ordinals(material.triggers),
        }
    )
    by = ["last", "before", "ordinal"]
    rows = frame.filter(pl.col("last") >= 0).group_by(by).len().sort(by)
    groups = rows.select("last", "before").to_numpy()
    out: dict[int, dict[str, list[int]]] = {}
    for row, pairs in _pairs(groups, rows["ordinal"].to_numpy(), rows["len"].to_numpy()):
        token, previous = groups[row].tolist()
        out.setdefault(token, {})[material.words[previous] if previous >= 0 else ""] = pairs
    return out


def _promotes(material: Material) -> dict[int, list[int]]:
    ids = material.tops[0]
    ordinal, place = (a.ravel() for a in np.indices(ids.shape))
    by_word = np.lexsort([ordinal, ids.ravel()])
    words = ids.ravel()[by_word, None]
    return {int(words[row, 0]): pairs for row, pairs in _pairs(words, ordinal[by_word], place[by_word] + 1)}
