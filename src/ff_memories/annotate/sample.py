"""Sample the keys and triggers to annotate, and random prefixes to compare them with."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError
from ff_memories.corpus.store import Corpus

FEWEST = 3  # prefixes that a pattern needs (section 3.1); a key with fewer triggers can have none

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Key:
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
    drawn = []
    for (layer,), part in keys_with_enough(triggers).group_by("layer", maintain_order=True):
        rng = generator(seed, f"pattern keys of layer {layer}")
        drawn += [(layer, key) for key in sorted(rng.permutation(part["key"].to_numpy())[:per_layer].tolist())]
    return pl.DataFrame(drawn, schema={"layer": pl.UInt8, "key": pl.UInt16}, orient="row")


def read_keys(triggers: pl.DataFrame, corpus: Corpus, per_layer: int, top: int, seed: int) -> list[Key]:
    """Return the sampled keys with their ``top`` triggers as token ids.

    Raises:
        UserError: the triggers belong to another corpus.
    """
    chosen = sample_keys(triggers, per_layer, seed)
    rows = triggers.filter(pl.col("rank") <= top).join(chosen, on=["layer", "key"]).sort("layer", "key", "rank")
    check_corpus(triggers, corpus)
    keys = []
    for (layer, key), part in rows.group_by("layer", "key", maintain_order=True):
        places = part.select("sentence", "position").iter_rows()
        prefixes = tuple(tuple(corpus.sentence(s)[:j].tolist()) for s, j in places)
        keys.append(Key(layer, key, tuple(part["rank"].to_list()), prefixes))
    return keys


def check_corpus(rows: pl.DataFrame, corpus: Corpus) -> None:
    """Raise ``UserError`` if a trigger's sentence or position lies outside the corpus's training text."""
    sentences, positions = rows["sentence"].to_numpy(), rows["position"].to_numpy()
    if len(rows) and (
        sentences.max() >= corpus.train or (positions > corpus.lengths[sentences.astype(np.int64)]).any()
    ):
        raise UserError(
            "the triggers name sentences or positions that the corpus does not have",
            "make both with the same run of the workflow",
        )


def random_prefixes(corpus: Corpus, triggers: pl.DataFrame, most: int, seed: int, purpose: str) -> list[Prefix]:
    """Sample prefixes of random training sentences, uniformly over each sentence's positions.

    Positions are those at which triggers were searched: the empty prefix and the complete sentence only if some
    trigger is one. Sentences are drawn without replacement, repeatedly if there are fewer than ``most``.

    Raises:
        UserError: no training sentence has such a prefix.
    """
    shortest = 0 if (triggers["position"] == 0).any() else 1
    complete = triggers["next_token"].null_count() > 0
    last = corpus.lengths[: corpus.train] - (0 if complete else 1)
    possible = np.flatnonzero(last >= shortest)
    if not len(possible):
        raise UserError("no training sentence has two tokens", "give corpus.train.files with longer sentences")
    rng = generator(seed, purpose)
    rounds = -(-most // len(possible))
    drawn = np.concatenate([rng.permutation(possible) for _ in range(rounds)])[:most]
    ends = rng.integers(shortest, last[drawn] + 1)
    return [tuple(corpus.sentence(s)[:j].tolist()) for s, j in zip(drawn.tolist(), ends.tolist(), strict=True)]
