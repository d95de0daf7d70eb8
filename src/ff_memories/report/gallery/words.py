"""Write the index of words: the keys that fire on a token, the values that promote it, and the parts that contain it.

Entries are sorted by their lower-case words and split into parts of similar size. The first word of each part tells
where to look for a word. The order is JavaScript's, by UTF-16 code units.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from ff_memories.report.gallery.material import Material

NUMBERS_OF_A_PART = 60_000
EVERYWHERE = 0  # replaces the list of parts for words that occur in at least half of them


def fold(word: str) -> str:
    """Return a word's lookup form."""
    return word.lower()


def order(folded: str) -> bytes:
    """Return the sort key of folded words, which follows JavaScript's comparison."""
    return folded.encode("utf-16-be", "surrogatepass")


def word_parts(material: Material) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield each part's first word, folded, and its entries: [word, fires, promotes, parts].

    ``fires``: by the preceding token (empty: none), [ordinal, triggers, ordinal, triggers, ...] of keys with triggers
    that end in both; ``promotes``: [ordinal, place, ...] of the values with the word among their top tokens, place
    1 = top; ``parts``: of keys whose triggers contain it. Ordinals and parts are stored as differences.
    """
    fires, promotes, parts = _fires(material), _promotes(material), _occurrences(material)
    entries: list[list[Any]] = [
        [material.words[token], fires.get(token, {}), promotes.get(token, []), parts.get(token, [])]
        for token in sorted(fires.keys() | promotes.keys() | parts.keys())
    ]
    entries.sort(key=lambda entry: (order(fold(entry[0])), entry[0]))
    start, size = 0, 0
    for i, entry in enumerate(entries):
        new_word = i > 0 and fold(entry[0]) != fold(entries[i - 1][0])
        if new_word and size >= NUMBERS_OF_A_PART:
            yield fold(entries[start][0]), entries[start:i]
            start, size = i, 0
        size += 8 + sum(1 + len(pairs) for pairs in entry[1].values()) + len(entry[2])
        size += 1 if entry[3] == EVERYWHERE else len(entry[3])
    if entries:
        yield fold(entries[start][0]), entries[start:]


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


def _occurrences(material: Material) -> dict[int, list[int] | int]:
    """Return by token the parts of keys whose triggers contain it."""
    tokens, (first, end) = material.corpus.tokens, material.windows
    found = []
    for part in material.parts():
        own = material.keys_of(part)
        rows = range(material.bounds[own.start], material.bounds[own.stop])
        pieces = [tokens[first[i] : end[i]] for i in rows]
        here = np.unique(np.concatenate(pieces)) if pieces else np.zeros(0, dtype=np.int32)
        found.append(np.stack([here, np.full_like(here, part)]))
    token, part = np.concatenate(found, axis=1)
    by_token = np.argsort(token, kind="stable")
    token, part = token[by_token], part[by_token]
    edges = [0, *(np.flatnonzero(np.diff(token)) + 1).tolist(), len(token)]
    half = len(material.parts()) / 2
    return {
        int(token[a]): EVERYWHERE if b - a >= half else np.diff(part[a:b], prepend=0).tolist()
        for a, b in pairwise(edges)
        if b > a
    }
