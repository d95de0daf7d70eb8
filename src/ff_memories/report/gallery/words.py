"""Write the index of words: the keys that fire on a token, the values that promote it, and where its postings are.

Entries are sorted by their lower-case words and split into parts of similar size. The first word of each part tells
where to look for a word. The order is JavaScript's, by UTF-16 code units.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from ff_memories.report.gallery import postings
from ff_memories.report.gallery.material import Material

NUMBERS_OF_A_PART = 60_000
TERMS_OF_A_PART = 4_000


def fold(word: str) -> str:
    """Return a word's lookup form."""
    return word.lower()


def order(folded: str) -> bytes:
    """Return the sort key of folded words, which follows JavaScript's comparison."""
    return folded.encode("utf-16-be", "surrogatepass")


def word_parts(material: Material) -> list[tuple[str, list[list[Any]]]]:
    """Return each part's first word, folded, and its entries: [word, fires, promotes].

    ``fires``: by the preceding token (empty: none), [ordinal, triggers, ordinal, triggers, ...] of keys with triggers
    that end in both; ``promotes``: [ordinal, place, ...] of the values with the word among their top tokens, place 1 =
    top. Ordinals are stored as differences.
    """
    fires, promotes = _fires(material), _promotes(material)
    tokens = _sorted(material, fires.keys() | promotes.keys())
    entries: list[list[Any]] = [
        [material.words[token], fires.get(token, {}), promotes.get(token, [])] for token in tokens
    ]
    sizes = [8 + sum(1 + len(pairs) for pairs in entry[1].values()) + len(entry[2]) for entry in entries]
    return [(fold(entries[own.start][0]), entries[own]) for own in _cut(entries, sizes, NUMBERS_OF_A_PART)]


def term_parts(material: Material) -> tuple[list[tuple[str, dict[str, Any]]], postings.Postings]:
    """Return each part's first term, folded, with the part, and the postings of all terms.

    A term is a token in the shown text of a trigger. A part's ``terms`` are entries [word, triggers that contain it,
    bytes of its postings, bytes of its places]; ``at``: where in both streams its first term begins.
    """
    tokens = _sorted(material, postings.held(material).tolist())
    text = postings.index(material, np.array(tokens, dtype=np.int64))
    at = np.concatenate([[[0, 0]], np.cumsum(text.sizes, axis=0)]).tolist()
    sums = zip(text.counts.tolist(), text.sizes.tolist(), strict=True)
    entries = [[material.words[token], n, *sizes] for token, (n, sizes) in zip(tokens, sums, strict=True)]
    cut = _cut(entries, [1] * len(entries), TERMS_OF_A_PART)
    return [(fold(entries[own.start][0]), {"at": at[own.start], "terms": entries[own]}) for own in cut], text


def _sorted(material: Material, tokens: Iterable[int]) -> list[int]:
    words = material.words
    return sorted(tokens, key=lambda token: (order(fold(words[token])), words[token]))


def _cut(entries: Sequence[Sequence[Any]], sizes: list[int], most: int) -> Iterator[slice]:
    """Yield the entries of each part. Entries of the same word, whatever its case, stay together."""
    start, size = 0, 0
    for i, entry in enumerate(entries):
        if size >= most and fold(entry[0]) != fold(entries[i - 1][0]):
            yield slice(start, i)
            start, size = i, 0
        size += sizes[i]
    if entries:
        yield slice(start, len(entries))


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
