"""Which keys the gallery shows (``gallery.keys``)."""

import polars as pl

from ff_memories.memories.search import memory_selection


def shown(
    asked: memory_selection.Asked, looked_at: pl.DataFrame, causal: pl.DataFrame, layers: int, neurons: int, seed: int
) -> pl.DataFrame:
    """Return ``layer`` and ``key``, sorted: what ``memory_selection.in_gallery`` says, see its arguments and errors.

    A random sample gains the memories of the table ``causal``: their pages then show what removing them does.
    """
    keys = memory_selection.in_gallery(asked, looked_at, layers, neurons, seed)
    if not isinstance(asked, int):
        return keys
    memory = pl.col("key").cast(pl.Int64) % neurons
    changed = causal.select("layer", memory=memory).unique()
    every = looked_at.select("layer", "key").unique().with_columns(memory=memory)
    more = every.join(changed, on=["layer", "memory"], how="semi").select("layer", "key")
    return pl.concat([keys, more]).unique().sort("layer", "key")
