"""Read the paper's own values, which are drawn as bands, lines and hollow marks beside ours."""

from collections.abc import Iterable

import polars as pl

from ff_memories.figures.registry import DRAWN

# The paper's values apply to a model of this depth only.
PAPER_LAYERS = 16
VOCABULARY = 267_744  # token types of its model, to turn its ranks into shares
STATED, READ_OFF = "stated", "read off the figure"
SCHEMA = {
    "figure": pl.String,
    "series": pl.String,
    "first_layer": pl.Int64,
    "last_layer": pl.Int64,
    "left": pl.Float64,
    "right": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "known": pl.String,
    "named": pl.String,
}


def all_values(figures: Iterable[str] = DRAWN) -> pl.DataFrame:
    """Return the paper's values that figures declare, one row each, in the order of their files."""
    rows = []
    for figure in figures:
        for known, entries in DRAWN[figure].paper.items():
            for entry in entries:
                first, last = entry.get("layers", (None, None))
                left, right = entry.get("probability", (None, None))
                low, high = entry["range"] if "range" in entry else (entry["value"], entry["value"])
                named = entry.get("named", "")
                rows.append((figure, entry["series"], first, last, left, right, low, high, known, named))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def values(figure: str, layers: int, surrogate: bool) -> pl.DataFrame:
    """Return the paper's values to show in a run's figure.

    A model of another depth gets none: scaled to a relative depth, a mark would appear at a layer that the paper never
    measured. Values by probability apply to the paper's own vocabulary and model only.
    """
    known = all_values([figure])
    if layers != PAPER_LAYERS:
        return known.clear()
    return known.filter(pl.col("left").is_null()) if surrogate else known
