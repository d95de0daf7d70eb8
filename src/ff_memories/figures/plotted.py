"""Read again, from the CSV files of a run's figures, all numbers that they show."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from ff_memories.figures.registry import DRAWN


def plotted(paths: Iterable[Path]) -> pl.DataFrame:
    """Return the numbers of all figures in the report's order, given their files, such as figure2.csv.

    A row per mark: ``figure``, and the columns of the figure's file; null in those that only other figures have.
    """
    by_name = {path.stem: path for path in paths}
    parts = [pl.DataFrame(schema={"figure": pl.String})]
    for name in (name for name in DRAWN if name in by_name):
        numbers = pl.read_csv(by_name[name], infer_schema_length=None)
        parts.append(numbers.select(pl.lit(name).alias("figure"), pl.all()))
    return pl.concat(parts, how="diagonal_relaxed")
