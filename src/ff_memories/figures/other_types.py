"""Which other choice of ``values.types`` a table knows, and what it is called. Light to import: tables show it, too."""

import polars as pl

SAID = {"trained": "without never-trained types", "all": "with never-trained types, too"}


def other(frame: pl.DataFrame, column: str) -> str | None:
    """Return the choice by which a frame has this column once more, under the choice's suffix."""
    return next((types for types in SAID if f"{column}_{types}" in frame.columns), None)
