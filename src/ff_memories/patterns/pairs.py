"""Compare every two annotators: people with people, a model with people, the proxy with both."""

from itertools import combinations

import polars as pl

from ff_memories.patterns import inter_annotator
from ff_memories.patterns.scoring import Score

Pair = tuple[str, str, str, *Score]  # two annotators, a measure, and its score


def pairs(labels: pl.DataFrame, seed: int) -> list[Pair]:
    """Return the agreement of every two annotators on the prefixes of keys that both labelled.

    Args:
        labels: rows with ``annotator``, ``layer``, ``key``, ``rank`` and ``label``, as of ``pattern_labels``.
        seed: of the bootstrap over keys.

    Returns:
        (one, other, measure, value, low, high, n): 95 % intervals and n are over keys. Without a shared key, n is 0.
    """
    out: list[Pair] = []
    every = labels.select("annotator", "layer", "key", "rank", pl.col("label").cast(pl.String))
    for one, other in combinations(sorted(every["annotator"].unique().to_list()), 2):
        mine, theirs = (every.filter(pl.col("annotator") == name) for name in (one, other))
        both = mine.join(theirs, on=["layer", "key", "rank"], suffix="_other").sort("layer", "key", "rank")
        keys = [
            inter_annotator.counted([list(row) for row in part.select("label", "label_other").iter_rows()])
            for _, part in both.group_by("layer", "key", maintain_order=True)
        ]
        for measure in inter_annotator.MEASURES:
            out.append((one, other, measure, *inter_annotator.over_keys(keys, seed, measure), len(keys)))
    return out
