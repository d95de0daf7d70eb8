"""Read the paper's own values, which are drawn as bands, lines and hollow marks beside ours."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

import polars as pl

# The paper's values apply to a model of this depth only.
PAPER_LAYERS = 16
STATED, READ_OFF = "stated", "read off the figure"
SCHEMA = {
    "figure": pl.String, "series": pl.String, "first_layer": pl.Int64, "last_layer": pl.Int64,
    "left": pl.Float64, "right": pl.Float64, "low": pl.Float64, "high": pl.Float64, "known": pl.String,
    "named": pl.String,
}  # fmt: skip


@cache
def _held() -> dict[str, Any]:
    return tomllib.loads(files("ff_memories.figures").joinpath("paper_values.toml").read_text(encoding="utf-8"))


def vocabulary() -> int:
    """Return V, the number of token types of the paper's model."""
    return int(_held()["vocabulary"])


@cache
def all_values() -> pl.DataFrame:
    """Return every entry of ``paper_values.toml``, one row each, in the file's order."""
    rows = []
    for entry in _held()["value"]:
        first, last = entry.get("layers", (None, None))
        left, right = entry.get("probability", (None, None))
        low, high = entry["range"] if "range" in entry else (entry["value"], entry["value"])
        rows.append(
            (entry["figure"], entry["series"], first, last, left, right, low, high, entry["known"],
             entry.get("named", ""))
        )  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def values(figure: str, layers: int, surrogate: bool) -> pl.DataFrame:
    """Return the paper's values to show in a run's figure.

    A model of another depth gets none: scaled to a relative depth, a mark would appear at a layer that the paper never
    measured. Values by probability apply to the paper's own vocabulary and model only.
    """
    known = all_values().filter(pl.col("figure") == figure)
    if layers != PAPER_LAYERS:
        return known.clear()
    return known.filter(pl.col("left").is_null()) if surrogate else known
