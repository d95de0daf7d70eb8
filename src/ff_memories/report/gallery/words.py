"""Write the index of words: the keys that fire on a token, the values that promote it, and its postings.

Entries are sorted by their lower-case words and split into parts of similar size. The first word of each part tells
where to look for a word, which may stand in several parts. The order is JavaScript's, by UTF-16 code units.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from ff_memories.report.gallery.material import Material

NUMBERS_OF_A_PART = 60_000
TERMS_OF_A_PART = 200_000  # numbers of a part of postings


def word_parts(material: Material) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield each part's first word, in lower case, and its entries: [word, fires, promotes].

    ``fires``: by the preceding token (empty: none), [ordinal, triggers, ordinal, triggers, ...] of keys with triggers
    that end in both; ``promotes``: [ordinal, place, ...] of the values with the word among their top tokens, place 1 =
    top. Ordinals are stored as differences.
    """
    fires, promotes = _fires(material), _promotes(material)
    entries = (
        [material.words[token], fires.get(token, {}), promotes.get(token, [])]
        for token in _sorted(material, fires.keys() | promotes.keys())
    )

    def size(entry: list[Any]) -> int:
        return 8 + sum(1 + len(pairs) for pairs in entry[1].values()) + len(entry[2])

    return _cut(entries, size, NUMBERS_OF_A_PART)


def term_parts(material: Material) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield each part's first term, in lower case, and its entries: [word, triggers, places] (``postings``).

    A term is a token in the shown text of a trigger.
    """
    order = _sorted(material, range(len(material.words)))
    entries = ([material.words[token], *posting] for token, *posting in postings(material, order))
    return _cut(entries, lambda entry: len(entry[1]) + len(entry[2]), TERMS_OF_A_PART)


def _sorted(material: Material, tokens: Iterable[int]) -> list[int]:
    words = material.words
    return sorted(tokens, key=lambda token: (words[token].lower().encode("utf-16-be", "surrogatepass"), words[token]))


def _cut(
    entries: Iterable[list[Any]], size: Callable[[list[Any]], int], most: int
) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield each part's first word, in lower case, and its entries, of ``most`` numbers in all or a little more."""
    part: list[list[Any]] = []
    numbers = 0
    for entry in entries:
        part.append(entry)
        numbers += size(entry)
        if numbers >= most:
            yield part[0][0].lower(), part
            part, numbers = [], 0
    if part:
        yield part[0][0].lower(), part


def _steps(ordinals: list[int], numbers: list[int]) -> list[int]:
    """Return [ordinal difference, number, ...] of ascending ordinals with a number each."""
    return np.stack([np.diff(ordinals, prepend=0), numbers], axis=1).ravel().tolist()


def _fires(material: Material) -> dict[int, dict[str, list[int]]]:
    first, end = material.windows
    before = np.where(end - first > 1, material.corpus.tokens[np.maximum(end, 2) - 2], -1).astype(np.int64)
    columns = {"last": material.last_tokens, "before": before, "ordinal": material.ordinals(material["triggers"])}
    counted = pl.DataFrame(columns).filter(pl.col("last") >= 0).group_by(*columns).len().sort(*columns)
    out: dict[int, dict[str, list[int]]] = {}
    for token, previous, *pairs in counted.group_by("last", "before", maintain_order=True).agg("ordinal", "len").rows():
        out.setdefault(token, {})[material.words[previous] if previous >= 0 else ""] = _steps(*pairs)
    return out


def _promotes(material: Material) -> dict[int, list[int]]:
    promoted = material["promoted"]
    places = promoted.select(
        "token", ordinal=pl.Series(material.ordinals(promoted)), place=pl.col("token_rank").cast(pl.Int64) + 1
    ).sort("token", "ordinal", "place")
    by_token = places.group_by("token", maintain_order=True).agg("ordinal", "place")
    return {token: _steps(*pairs) for token, *pairs in by_token.iter_rows()}


PLACE, NUMBER = 6, 34  # bits of an occurrence's place and trigger; its token has the others
LAST = 1 << PLACE  # is added to the last place in a trigger
TRIGGERS_OF_AN_ENTRY = 50_000  # triggers of an entry: a token in more has several
ROWS = 1 << 16  # triggers read at once


def postings(material: Material, order: list[int]) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield the index of the shown text as (token, triggers, places); one token may have several entries.

    Triggers are numbers in ascending order, the first and then differences. Places count from a trigger's last token,
    0; ``LAST`` is added to the last one in each trigger.

    Args:
        order: ids in the order of the index, each once.
    """
    occurrences = _occurrences(material, np.array(order, dtype=np.int64))
    edges = np.searchsorted(occurrences, np.arange(len(order) + 1, dtype=np.uint64) << np.uint64(PLACE + NUMBER))
    for token, (first, end) in zip(order, pairwise(edges.tolist()), strict=True):
        if first == end:  # in no shown text
            continue
        trigger = occurrences[first:end] >> np.uint64(PLACE)
        last = np.append(trigger[1:] != trigger[:-1], True)
        places = (occurrences[first:end] & np.uint64(LAST - 1)).astype(np.int64) + LAST * last
        ends = np.flatnonzero(last) + 1
        numbers = (trigger[last] & np.uint64((1 << NUMBER) - 1)).astype(np.int64)
        for start in range(0, len(ends), TRIGGERS_OF_AN_ENTRY):
            rows = slice(start, start + TRIGGERS_OF_AN_ENTRY)
            begin = ends[start - 1] if start else 0
            yield token, np.diff(numbers[rows], prepend=0).tolist(), places[begin : ends[rows][-1]].tolist()


def _occurrences(material: Material, order: np.ndarray) -> np.ndarray:
    """Return each token of each shown trigger as one number: token's order, trigger, place. (occurrences,) sorted."""
    (first, end), text, triggers = material.windows, material.corpus.tokens, material["triggers"]
    place_of = np.zeros(len(material.words), dtype=np.uint64)
    place_of[order] = np.arange(len(order))
    number = material.ordinals(triggers) * material.most_triggers + triggers["rank"].to_numpy().astype(np.int64) - 1
    starts = np.concatenate([[0], np.cumsum(end - first)])
    occurrences = np.empty(int(starts[-1]), dtype=np.uint64)
    for start in range(0, len(first), ROWS):
        rows = slice(start, min(start + ROWS, len(first)))
        lengths, shown = end[rows] - first[rows], slice(starts[rows.start], starts[rows.stop])
        at = np.arange(shown.start, shown.stop) + np.repeat(first[rows] - starts[rows], lengths)  # in the corpus
        low = (np.repeat(number[rows], lengths) << PLACE) + np.repeat(end[rows] - 1, lengths) - at
        high = place_of[text[at]] << np.uint64(PLACE + NUMBER)
        occurrences[shown] = high | low.astype(np.uint64)
    occurrences.sort()
    return occurrences
