"""Draw what a study shows: sampled keys with their triggers, random prefixes, and the order in which they are shown.

Annotators see the keys, some of them twice, and foils of random prefixes, all in one format. An item's name combines
its identity (`kind`, layer, key) with a hash of its prefixes, so a label stays with the text it was given for: after a
new extraction, items with unchanged prefixes keep their names.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ff_memories import tables
from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError
from ff_memories.base.text import escape_invisible
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.tokenizer import Types

FEWEST = 3  # prefixes that a pattern needs (section 3.1); a key with fewer triggers can have none
REPEATS = FOILS = 0.1  # share of the sampled keys, at least one each

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class SampledKey:
    """A sampled key and its top triggers as token ids, in order of rank."""

    layer: int
    key: int
    ranks: tuple[int, ...]
    prefixes: tuple[Prefix, ...]


def keys_with_enough(triggers: pl.DataFrame) -> pl.DataFrame:
    """Return the keys with at least three triggers: ``layer``, ``key``, sorted."""
    return triggers.group_by("layer", "key").len().filter(pl.col("len") >= FEWEST).sort("layer", "key").drop("len")


def sample_keys(triggers: pl.DataFrame, per_layer: int, seed: int) -> pl.DataFrame:
    """Sample keys with at least three triggers: ``layer``, ``key``, at most ``per_layer`` per layer (section 3.1).

    Every layer has its own random stream, so its keys do not depend on other layers.
    """
    sampled = []
    for (layer,), part in keys_with_enough(triggers).group_by("layer", maintain_order=True):
        rng = generator(seed, f"pattern keys of layer {layer}")
        sampled += [(layer, key) for key in sorted(rng.permutation(part["key"].to_numpy())[:per_layer].tolist())]
    return pl.DataFrame(sampled, schema={"layer": pl.UInt8, "key": pl.UInt16}, orient="row")


def read_keys(triggers: pl.DataFrame, corpus: Corpus, per_layer: int, top: int, seed: int) -> list[SampledKey]:
    """Return the sampled keys with their ``top`` triggers as token ids."""
    sampled = sample_keys(triggers, per_layer, seed)
    rows = triggers.filter(pl.col("rank") <= top).join(sampled, on=["layer", "key"]).sort("layer", "key", "rank")
    keys = []
    for (layer, key), part in rows.group_by("layer", "key", maintain_order=True):
        prefixes = (corpus.sentence(s)[:j].tolist() for s, j in part.select("sentence", "position").iter_rows())
        keys.append(SampledKey(layer, key, tuple(part["rank"].to_list()), tuple(map(tuple, prefixes))))
    return keys


def random_prefixes(corpus: Corpus, triggers: pl.DataFrame, most: int, seed: int, purpose: str) -> list[Prefix]:
    """Sample prefixes of random training sentences, uniformly over each sentence's positions.

    Positions are those at which triggers were searched: the empty prefix and the complete sentence only if some
    trigger is one. Sentences are drawn without replacement, repeatedly if there are fewer than ``most``. Raises
    ``UserError`` if no training sentence has such a prefix.
    """
    shortest = 0 if (triggers["position"] == 0).any() else 1
    complete = triggers["next_token"].null_count() > 0
    last = corpus.lengths[: corpus.train] - (0 if complete else 1)
    possible = np.flatnonzero(last >= shortest)
    if not len(possible):
        raise UserError("no training sentence has two tokens", "give corpus.train.files with longer sentences")
    rng = generator(seed, purpose)
    rounds = -(-most // len(possible))
    sentences = np.concatenate([rng.permutation(possible) for _ in range(rounds)])[:most]
    ends = rng.integers(shortest, last[sentences] + 1)
    return [tuple(corpus.sentence(s)[:j].tolist()) for s, j in zip(sentences.tolist(), ends.tolist(), strict=True)]


@dataclass(frozen=True)
class Item:
    """One item to annotate: prefixes by rank, as words with invisible characters escaped.

    Of the kinds ``key``, ``repeat`` (shown again) and ``foil`` (random prefixes), a foil's ``key`` is its number.
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


def items(triggers: pl.DataFrame, corpus: Corpus, dictionary: Types, per_layer: int, top: int, seed: int) -> list[Item]:
    """Return all items in the order shown. A repeat is in the other half than its key, if there are several keys."""

    def item(kind: str, layer: int | None, key: int, prefixes: Sequence[Prefix]) -> Item:
        return Item(kind, layer, key, tuple(tuple(escape_invisible(dictionary[t]) for t in p) for p in prefixes))

    keys = read_keys(triggers, corpus, per_layer, top, seed)
    if not keys:
        return []
    rng = generator(seed, "annotation order")
    order = rng.permutation(len(keys)).tolist()
    repeated, foils = (max(1, round(share * len(keys))) for share in (REPEATS, FOILS))
    prefixes = random_prefixes(corpus, triggers, foils * top, seed, "foil prefixes")
    once = [item("key", keys[i].layer, keys[i].key, keys[i].prefixes) for i in order]
    twice = [item("repeat", keys[i].layer, keys[i].key, keys[i].prefixes) for i in order[:repeated]]
    noise = [item("foil", None, number, prefixes[number * top : (number + 1) * top]) for number in range(foils)]
    # repeated keys are at the front of `once`, so their repeats go to the second half
    half = len(once) // 2
    halves = [*once[:half], *noise[::2]], [*once[half:], *noise[1::2], *twice]
    return [part[i] for part in halves for i in rng.permutation(len(part)).tolist()]


def plan(shown: Iterable[Item]) -> pl.DataFrame:
    """Return the rows of ``annotation_plan``."""
    rows = [
        (i.item, i.content, i.kind, i.layer, None if i.kind == "foil" else i.key, len(i.prefixes), order)
        for order, i in enumerate(shown, 1)
    ]
    return pl.DataFrame(rows, schema=tables.TABLES["annotation_plan"].columns, orient="row")
