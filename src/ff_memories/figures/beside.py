"""The other choice of ``values.types``, where the tables hold it: its numbers beside those of the run's own choice."""

from collections.abc import Callable

import altair as alt
import polars as pl

from ff_memories.claims.evidence import of_types
from ff_memories.figures.context import FigureContext
from ff_memories.figures.marks import Options, layer_axis, source
from ff_memories.figures.other_types import SAID, other
from ff_memories.figures.theme import BLACK

LOOK: Options = {"color": "white", "stroke": BLACK, "strokeWidth": 0.5, "opacity": 1, "clip": True}


def _chart(frame: pl.DataFrame, column: str) -> alt.Chart:
    return alt.Chart(source(frame.drop_nulls(column)))


def with_other(
    frame: pl.DataFrame, table: pl.DataFrame, column: str, shown: str, measure: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.DataFrame:
    """Return a frame by layer with the column ``shown`` of the same measure by the other choice, under its suffix.

    ``column``: one that the table has once more where it knows the other choice; without it the frame stays as it is.
    """
    types = other(table, column)
    if types is None:
        return frame
    known = measure(of_types(table, types)).select("layer", pl.col(shown).alias(f"{shown}_{types}"))
    return frame.join(known, on="layer", how="left", maintain_order="left")


def by_layer(frame: pl.DataFrame, column: str, context: FigureContext) -> list[alt.Chart]:
    """Return a hollow tick at each of the other choice's values of ``column``, on the axis of layers."""
    types = other(frame, column)
    if types is None:
        return []
    mark = _chart(frame, f"{column}_{types}").mark_tick(thickness=1.4, width={"band": 0.4}, **LOOK)
    return [mark.encode(x=layer_axis(context), y=f"{column}_{types}:Q")]


def across(frame: pl.DataFrame, column: str, x: alt.X) -> list[alt.Chart]:
    """Return the same on an axis of numbers, ``x``, from ``tick_from`` to ``tick_to``."""
    types = other(frame, column)
    if types is None:
        return []
    y = f"{column}_{types}:Q"
    halo = _chart(frame, y[:-2]).mark_rule(strokeWidth=2.8, color=BLACK).encode(x=x, x2="tick_to", y=y)
    return [halo, _chart(frame, y[:-2]).mark_rule(strokeWidth=1.8, color="white").encode(x=x, x2="tick_to", y=y)]


def note(frame: pl.DataFrame, column: str) -> list[str]:
    """Return the line that says what the ticks are, where there are any."""
    types = other(frame, column)
    return [f"hollow ticks: {SAID[types]}"] if types else []
