"""A toy: measure how long every key's triggers are (table `trigger_lengths`)."""

import polars as pl

from ff_memories import tables
from ff_memories.base.parameters import Input, Output


def run(triggers: Input, trigger_lengths: Output) -> None:
    """Average the triggers' lengths.

    Args:
        trigger_lengths: the table to write
    """
    lengths = tables.read(triggers).group_by("layer", "key").agg(mean_length=pl.col("position").mean())
    tables.write(lengths, trigger_lengths)
