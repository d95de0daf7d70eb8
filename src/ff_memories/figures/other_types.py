"""Find the other choice of ``values.types`` in a table, and name it. Light to import, since tables use it too."""

import polars as pl

SAID = {"trained": "without never-trained types", "all": "with never-trained types"}


def other(frame: pl.DataFrame, column: str) -> str | None:
    """Return the choice whose suffixed copy of this column the frame has, if any."""
    return next((types for types in SAID if f"{column}_{types}" in frame.columns), None)
