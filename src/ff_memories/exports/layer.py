"""The 'layer' columns as the released code's data frame: one row per sentence, a list over layers in every column."""

import polars as pl

from ff_memories.memories.released import LAYER_COLUMNS


def layer_frame(released: pl.DataFrame, examples: pl.DataFrame, texts: dict[int, str]) -> pl.DataFrame:
    """Return ``text``, ``random_pos`` and every column of ``released_layer`` as a list from the first layer on."""
    lists = released.sort("example", "layer").group_by("example", maintain_order=True).agg(LAYER_COLUMNS)
    text = pl.Series("text", [texts[s] for s in examples.sort("example")["sentence"]])
    return lists.join(examples.select("example", pl.col("position").alias("random_pos")), on="example").select(
        text, *LAYER_COLUMNS, "random_pos"
    )
