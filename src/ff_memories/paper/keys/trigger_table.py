"""Prefixes by their numbers, and the tables ``triggers`` and ``firing`` made from the lists of all keys."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ff_memories import tables
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.corpus.store import Corpus, available
from ff_memories.model.decoder import LanguageModel
from ff_memories.paper.keys.topk import MAX_PREFIXES, TopTriggers


def prefix_starts(corpus: Corpus) -> np.ndarray:
    """Return the number of each sentence's empty prefix: sentence s, length j is prefix ``starts[s] + j``, j in 0..N.

    Raises ``UserError`` where there are more prefixes than numbers.
    """
    starts = corpus.offsets + np.arange(len(corpus.offsets))
    if starts[-1] > MAX_PREFIXES:
        raise UserError(f"{starts[-1]:,} prefixes are more than {MAX_PREFIXES:,}", "set corpus.train.max_sentences")
    return starts


def require_enough(corpus: Corpus, top: int, positions: str, per_sentence: str) -> None:
    """Raise ``UserError`` where the training text has fewer prefixes than a key's list is to hold."""
    prefixes = available(corpus, positions)
    n = int((prefixes > 0).sum() if per_sentence == "best" else prefixes.sum())
    if n < top:
        what = "sentences with a prefix" if per_sentence == "best" else "prefixes"
        hint = "lower triggers.top (and mutations.top, patterns.top), or give more text"
        raise UserError(f"triggers.top is {top}, and the training text has {n} {what}", hint)


def table(best: TopTriggers, corpus: Corpus) -> pl.DataFrame:
    """Return the ``triggers`` table: ranks from 1, no row for a place that no prefix fills."""
    starts, parts = prefix_starts(corpus), []
    for layer in range(len(best.lists)):
        entries, rank = best.ranked(layer)
        prefixes = entries.prefix.cpu().numpy()
        sentence = np.searchsorted(starts, prefixes, side="right") - 1
        position = prefixes - starts[sentence]
        rows = {
            "layer": np.full(len(entries), layer + 1, dtype=np.int64),
            "key": entries.key.cpu().numpy(),
            "rank": rank.cpu().numpy(),
            "coefficient": entries.coefficient.cpu().numpy(),
            "sentence": sentence,
            "position": position,
            "next_token": pl.Series(corpus.following(sentence, position)).replace({-1: None}),
        }
        parts.append(pl.DataFrame(rows))
    return pl.concat(parts)


def reasons(triggers: pl.DataFrame, corpus: Corpus, options: Any, keys: int) -> dict[str, int]:
    """Return what the ``counts`` table says of the trigger pass; ``keys``: how many, both signs of a memory as two."""
    filled = triggers.group_by("layer", "key").len()["len"].cast(pl.Int64)
    return {
        "keys": keys,
        "keys_that_never_fire": keys - len(filled),
        "keys_with_fewer_triggers": int((filled < options.top).sum()),
        "triggers": len(triggers),
        "triggers_with_the_text_of_a_better_one": repeated(triggers, corpus),
        "places_unfilled": keys * options.top - int(filled.sum()),
        "sentences_without_prefix": int((available(corpus, options.positions) == 0).sum()),
    }


def repeated(triggers: pl.DataFrame, corpus: Corpus) -> int:
    """Return how many rows of the ``triggers`` table repeat the prefix text of a better one of their key."""
    numbers: dict[bytes, int] = {}
    prefixes = triggers.select("sentence", "position").unique(maintain_order=True)
    same = [numbers.setdefault(corpus.sentence(s)[:j].tobytes(), len(numbers)) for s, j in prefixes.iter_rows()]
    texts = triggers.join(prefixes.with_columns(text=pl.Series(same, dtype=pl.UInt32)), on=["sentence", "position"])
    return texts.height - texts.select("layer", "key", "text").n_unique()


def firing(counts: np.ndarray, prefixes: int, keys: list[tuple[int, int]] | None) -> pl.DataFrame:
    """Return the ``firing`` table of (layer, key), ``None`` for all, from counts (layers, memories) int64."""
    every = np.indices(counts.shape).reshape(2, -1) + np.array([[1], [0]])
    layer, key = every if keys is None else np.array(keys, dtype=np.int64).reshape(-1, 2).T
    return pl.DataFrame({"layer": layer, "key": key, "fired": counts[layer - 1, key], "prefixes": prefixes})


def read(path: str | Path, decoder: LanguageModel, corpus: Corpus, precision: Precision = "float32") -> pl.DataFrame:
    """Read a ``triggers`` table. Raises ``UserError`` where it is not one of this model, text and precision."""
    frame = tables.read(path)
    tables.require_precision(path, precision)
    columns = ("layer", "key", "sentence", "position", "next_token")
    layer, key, sentence, position, next_token = (frame[c].cast(pl.Int64).fill_null(-1).to_numpy() for c in columns)
    inside = (layer >= 1) & (layer <= decoder.description.layers) & (key < decoder.memories) & (sentence < len(corpus))
    if (
        not inside.all()
        or not ((position <= corpus.lengths[sentence]) & (next_token == corpus.following(sentence, position))).all()
    ):
        raise UserError(f"{path}: not the triggers of this model in this text", rebuild_hint(path))
    return frame
