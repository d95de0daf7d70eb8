"""Index the text of triggers: for every token, the triggers that contain it (its postings), and where in them.

A trigger has a number, ordinal · top + rank - 1, where top is the number of triggers per key. The postings of all
tokens stand one behind the other in one stream of bytes, and the places in another. Both are cut into files of equal
size.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ff_memories.report.gallery.material import Material

PLACE, NUMBER = 6, 34  # bits of an occurrence's place and trigger; its token has the others
LAST = 1 << PLACE  # marks the last place in a trigger
BLOCK = 1 << 21  # occurrences encoded at once
ROWS = 1 << 16  # triggers read at once
BYTES_OF_A_FILE = 250_000


@dataclass(frozen=True)
class Postings:
    """The index.

    Attributes:
        counts: (tokens,) the number of triggers that contain each token.
        sizes: (tokens, 2) how many bytes its postings and its places take.
        streams: the postings, then the places, of all tokens in their order. Postings are numbers in ascending order:
            the first, and differences, as variable-length integers (7 bits a byte, lowest first, the eighth set if more
            follow); or one bit per trigger, lowest bit first, where more than an eighth of the triggers contain the
            token. Places count from a trigger's last token, 0, one byte each; bit 6 is set on the last in a trigger.
    """

    counts: np.ndarray
    sizes: np.ndarray
    streams: tuple[bytes, bytes]


def top(material: Material) -> int:
    """Return how many numbers each key has for its triggers."""
    return int(material.triggers["rank"].max() or 0)  # type: ignore[arg-type]


def files(stream: bytes) -> Iterator[bytes]:
    """Yield the content of a stream's files."""
    for start in range(0, len(stream), BYTES_OF_A_FILE):
        yield stream[start : start + BYTES_OF_A_FILE]


def index(material: Material, order: np.ndarray) -> Postings:
    """Return the index of the shown text; ``order``: (tokens,) ids in the order of the index, each once."""
    found, every = _occurrences(material, order), material.size * top(material)
    edges = np.searchsorted(found, np.arange(len(order) + 1, dtype=np.uint64) << np.uint64(PLACE + NUMBER))
    counts, sizes = np.zeros(len(order), dtype=np.int64), np.zeros((len(order), 2), dtype=np.int64)
    postings, places, first = [], [], 0
    while first < len(order):
        end = max(first + 1, int(np.searchsorted(edges, edges[first] + BLOCK, side="right")) - 1)
        own, block = slice(first, end), found[edges[first] : edges[end]]
        counts[own], sizes[own], encoded, where = _encode(block, edges[first : end + 1] - edges[first], every)
        postings.append(encoded)
        places.append(where)
        first = end
    return Postings(counts, sizes, (b"".join(postings), b"".join(places)))


def held(material: Material) -> np.ndarray:
    """Return the ids of all tokens in the shown text, ascending."""
    found = np.zeros(len(material.words), dtype=bool)
    for _, at, _ in _shown(material):
        found[material.corpus.tokens[at]] = True
    return np.flatnonzero(found)


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
    (first, end), tokens, triggers = material.windows, material.corpus.tokens, material.triggers
    place_of = np.zeros(len(material.words), dtype=np.uint64)
    place_of[order] = np.arange(len(order))
    number = material.ordinals(triggers) * top(material) + triggers["rank"].to_numpy().astype(np.int64) - 1
    starts = np.concatenate([[0], np.cumsum(end - first)])
    found = np.empty(int(starts[-1]), dtype=np.uint64)
    for own, at, lengths in _shown(material):
        low = (np.repeat(number[own], lengths) << PLACE) + np.repeat(end[own] - 1, lengths) - at
        high = place_of[tokens[at]] << np.uint64(PLACE + NUMBER)
        found[starts[own.start] : starts[own.stop]] = high | low.astype(np.uint64)
    found.sort()
    return found


def _encode(found: np.ndarray, edges: np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray, bytes, bytes]:
    """Return counts, sizes and both streams of some tokens, whose sorted occurrences begin at ``edges``."""
    pair = found >> np.uint64(PLACE)
    new = np.ones(len(found), dtype=bool)
    new[1:] = pair[1:] != pair[:-1]
    last = np.append(new[1:], True) if len(found) else new
    where = ((found & np.uint64(LAST - 1)).astype(np.uint8) | np.where(last, LAST, 0).astype(np.uint8)).tobytes()
    number = (pair[new] & np.uint64((1 << NUMBER) - 1)).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(new)])[edges]  # of each token's postings
    counts = np.diff(starts)
    step = np.diff(number, prepend=0)
    begins = starts[:-1][counts > 0]
    step[begins] = number[begins]
    flat, ends = _integers(step)
    at = np.concatenate([[0], ends])[starts]
    sizes, pieces, done = np.diff(at), [], 0
    for token in np.flatnonzero(8 * counts > every).tolist():
        bits = np.zeros(every, dtype=bool)
        bits[number[starts[token] : starts[token + 1]]] = True
        pieces += [flat[done : at[token]], packed := np.packbits(bits, bitorder="little").tobytes()]
        sizes[token], done = len(packed), at[token + 1]
    return counts, np.stack([sizes, np.diff(edges)], axis=1), b"".join([*pieces, flat[done:]]), where


def _integers(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Return non-negative integers as variable-length integers, and where each ends, (values,) int64."""
    lengths = np.ones(len(values), dtype=np.int64)
    while (longer := values >> 7 * lengths > 0).any():
        lengths += longer
    ends = np.cumsum(lengths)
    flat = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    for byte in range(int(lengths.max()) if len(lengths) else 0):
        here = lengths > byte
        flat[(ends - lengths)[here] + byte] = (values[here] >> 7 * byte & 127) | (lengths[here] > byte + 1) << 7
    return flat.tobytes(), ends


def integers(flat: bytes) -> list[int]:
    """Return the integers that are written as variable-length integers."""
    out, value, shift = [], 0, 0
    for byte in flat:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            out.append(value)
            value = shift = 0
    return out
