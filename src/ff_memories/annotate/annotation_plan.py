"""Plan what annotators see, and in which order: sampled keys, some of them twice, and foils, all in one format.

An item's name combines its identity (`kind`, layer, key) with a hash of its prefixes, so a label stays with the
text it was given for: after a new extraction, items with unchanged prefixes keep their names.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ff_memories import tables
from ff_memories.annotate import sample
from ff_memories.annotate.sample import Prefix
from ff_memories.base.draws import generator
from ff_memories.base.text import escape_invisible
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.types import Types

REPEATS = FOILS = 0.1  # share of the sampled keys, at least one each


@dataclass(frozen=True)
class Item:
    """One item to annotate: prefixes by rank, as words with invisible characters escaped.

    Attributes:
        kind: ``key``, ``repeat`` (a key shown a second time) or ``foil`` (random prefixes).
        layer, key: of the key; for a foil, no layer, and its number as ``key``.
    """

    kind: str
    layer: int | None
    key: int
    prefixes: tuple[tuple[str, ...], ...]

    @property
    def content(self) -> str:
        """The hash of its prefixes."""
        return content_hash("\n".join(" ".join(words) for words in self.prefixes))

    @property
    def item(self) -> str:
        return f"{identity(self.kind, self.layer, self.key)}-{self.content}"


def content_hash(text: str) -> str:
    """Return a short hash of shown text."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def identity(kind: str, layer: int | None, key: int) -> str:
    """Return the first part of an item's name. Its letter keeps spreadsheets from reading it as a number."""
    return f"i{content_hash(f'{kind} {layer} {key}')}"


def identities_of(triggers: pl.DataFrame) -> set[str]:
    """Return the first parts of all names that items of a model with these triggers can have, for any sample."""
    layers, keys = (triggers[column].max() for column in ("layer", "key"))
    return identities(layers, keys + 1) if isinstance(layers, int) and isinstance(keys, int) else set()


def identities(layers: int, keys: int) -> set[str]:
    """Return the first parts of all names that a model's items can have, for any sample."""
    both = {
        identity(kind, lay, key) for kind in ("key", "repeat") for lay in range(1, layers + 1) for key in range(keys)
    }
    return both | {identity("foil", None, number) for number in range(layers * keys)}


def items(triggers: pl.DataFrame, corpus: Corpus, dictionary: Types, per_layer: int, top: int, seed: int) -> list[Item]:
    """Return all items in the order shown. A repeat is in the other half than its key."""
    keys = sample.read_keys(triggers, corpus, per_layer, top, seed)
    rng = generator(seed, "annotation order")
    order = rng.permutation(len(keys)).tolist()
    again = order[: max(1, round(REPEATS * len(keys)))] if keys else []
    foils = _foils(triggers, corpus, max(1, round(FOILS * len(keys))), top, seed) if keys else []
    shown = lambda prefixes: tuple(tuple(escape_invisible(dictionary[t]) for t in p) for p in prefixes)
    once = [Item("key", k.layer, k.key, shown(k.prefixes)) for k in (keys[i] for i in order)]
    twice = [Item("repeat", k.layer, k.key, shown(k.prefixes)) for k in (keys[i] for i in again)]
    noise = [Item("foil", None, number, shown(prefixes)) for number, prefixes in enumerate(foils)]
    # repeated keys are at the front of `once`, so their repeats go to the second half
    half = len(once) // 2
    return _mixed(once[:half], noise[::2], rng) + _mixed(once[half:], [*noise[1::2], *twice], rng)


def _mixed(some: Sequence[Item], others: Sequence[Item], rng: np.random.Generator) -> list[Item]:
    both = [*some, *others]
    return [both[i] for i in rng.permutation(len(both)).tolist()]


def _foils(triggers: pl.DataFrame, corpus: Corpus, number: int, top: int, seed: int) -> list[list[Prefix]]:
    prefixes = sample.random_prefixes(corpus, triggers, number * top, seed, "foil prefixes")
    return [prefixes[i * top : (i + 1) * top] for i in range(number)]


def table(shown: Iterable[Item]) -> pl.DataFrame:
    """Return the rows of ``annotation_plan``."""
    rows = [
        (i.item, i.content, i.kind, i.layer, None if i.kind == "foil" else i.key, len(i.prefixes), order)
        for order, i in enumerate(shown, 1)
    ]
    return pl.DataFrame(rows, schema=tables.TABLES["annotation_plan"].columns, orient="row")
