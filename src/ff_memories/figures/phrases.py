"""Phrases of figures' headlines, which say in one sentence what a figure shows in this run."""

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

NO_DATA = "No data"
HALF = 0.5


def percent(share: float, signed: bool = False) -> str:
    """Return a share in percent, with one decimal below ten if it has one: ``2.4 %``, ``81 %``, ``−79 %``."""
    value = round(100 * share, 1 if abs(share) < 0.0995 else 0) + 0.0  # no negative zero
    return f"{value:{'+' if signed and value else ''}.4g}\u00a0%".replace("-", "\u2212")


def in_layer(row: Mapping[str, Any], column: str, signed: bool = False) -> str:
    """Return a value with its layer: ``81 % in layer 16``."""
    return f"{percent(row[column], signed)}\u00a0in\u00a0layer\u00a0{row['layer']}"


def first_and_last(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of the frame's lowest and highest layer; one row if there is only one layer."""
    ends = frame.filter(pl.col("layer").is_in([frame["layer"].min(), frame["layer"].max()]))
    return ends.sort("layer").to_dicts()


def both_ends(frame: pl.DataFrame, column: str, signed: bool = False) -> str:
    """Return a column's values in the lowest and in the highest layer."""
    return ", ".join(in_layer(row, column, signed) for row in first_and_last(frame))


def extremes(frame: pl.DataFrame, column: str, number: Callable[[float], str] = percent) -> str:
    """Return a column's range over layers, with the layers of its minimum and maximum."""
    rows = frame.sort(column, "layer").to_dicts()
    ends = rows[:1] if rows[0]["layer"] == rows[-1]["layer"] else [rows[0], rows[-1]]
    return " to ".join(f"{number(row[column])}\u00a0in\u00a0layer\u00a0{row['layer']}" for row in ends)
