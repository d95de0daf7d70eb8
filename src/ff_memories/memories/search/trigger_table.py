"""Prefixes by their numbers, and the ``triggers`` table made from the lists of all keys."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ff_memories.base.errors import UserError
from ff_memories.corpus.prefixes import available
from ff_memories.corpus.store import Corpus
from ff_memories.memories.search.topk import MAX_PREFIXES, TopTriggers


@dataclass(frozen=True)
class Prefixes:
    """Numbers of all prefixes: sentence s, length j is prefix ``starts[s] + j``, j in 0..N."""

    starts: np.ndarray

    @classmethod
    def of(cls, corpus: Corpus) -> "Prefixes":
        starts = corpus.offsets + np.arange(len(corpus.offsets))
        if starts[-1] > MAX_PREFIXES:
            raise UserError(f"{starts[-1]:,} prefixes are more than {MAX_PREFIXES:,}", "set corpus.train.max_sentences")
        return cls(starts)

    def locate(self, prefixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (sentence, position) of prefix numbers."""
        sentence = np.searchsorted(self.starts, prefixes, side="right") - 1
        return sentence, prefixes - self.starts[sentence]


def require_enough(corpus: Corpus, top: int, positions: str, per_sentence: str) -> None:
    """Raise ``UserError`` where the training text has fewer prefixes than a key's list is to hold."""
    prefixes = available(corpus, positions)
    n = int((prefixes > 0).sum() if per_sentence == "best" else prefixes.sum())
    if n < top:
        what = "sentences with a prefix" if per_sentence == "best" else "prefixes"
        raise UserError(
            f"triggers.top is {top}, and the training text has {n} {what}",
            "lower triggers.top (and mutations.top, patterns.top), or give more text",
        )


def table(best: TopTriggers, corpus: Corpus) -> pl.DataFrame:
    """Return the ``triggers`` table: ranks from 1, no row for a place that no prefix fills."""
    prefixes, parts = Prefixes.of(corpus), []
    for layer in range(len(best.lists)):
        entries, rank = best.ranked(layer)
        sentence, position = prefixes.locate(entries.prefix.cpu().numpy())
        parts.append(
            pl.DataFrame(
                {
                    "layer": np.full(len(entries), layer + 1, dtype=np.int64),
                    "key": entries.key.cpu().numpy(),
                    "rank": rank.cpu().numpy(),
                    "coefficient": entries.coefficient.cpu().numpy(),
                    "sentence": sentence,
                    "position": position,
                    "next_token": corpus.following(sentence, position),
                }
            ).with_columns(pl.when(pl.col("next_token") >= 0).then("next_token").alias("next_token"))
        )
    return pl.concat(parts)


def reasons(triggers: pl.DataFrame, corpus: Corpus, options: Any, keys: int) -> dict[str, int]:
    """Return what the ``counts`` table says of the trigger pass.

    Args:
        triggers: the table.
        options: the config's section ``triggers``.
        keys: how many keys the run looks at, both signs of a memory as two.
    """
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
    same = [
        numbers.setdefault(corpus.sentence(sentence)[:position].tobytes(), len(numbers))
        for sentence, position in prefixes.iter_rows()
    ]
    texts = triggers.join(prefixes.with_columns(text=pl.Series(same, dtype=pl.UInt32)), on=["sentence", "position"])
    return texts.height - texts.select("layer", "key", "text").n_unique()
