"""Merge the measurements of every claim under every choice, with the run's own claims (table `sensitivity`)."""

import polars as pl

from ff_memories import tables
from ff_memories.base.parameters import Input, Inputs, Output
from ff_memories.judge.sensitivity import rows


def run(claims: Input, parts: Inputs, sensitivity: Output) -> None:
    """Put the parts together.

    Args:
        claims: the run's claims table
        parts: the files that sensitivity-part wrote
    """
    tables.write(pl.concat([rows(tables.read(claims)), *map(tables.read, parts)]), sensitivity)
