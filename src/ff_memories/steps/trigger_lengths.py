"""A toy: the mean length of every key's triggers (table `trigger_lengths`)."""

import polars as pl

from ff_memories import tables
from ff_memories.base.parameters import Input, Output


def run(triggers: Input, trigger_lengths: Output) -> None:
    mean = tables.read(triggers).group_by("layer", "key").agg(length=pl.col("position").mean())
    tables.write(mean, trigger_lengths, neurons=tables.neurons_of(triggers))
