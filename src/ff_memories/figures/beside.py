"""Draw the numbers under the other choice of ``values.types``, if the tables have them, beside the run's own."""

from collections.abc import Callable

import altair as alt
import polars as pl

from ff_memories.figures.context import FigureContext
from ff_memories.figures.marks import Options, layer_axis, source
from ff_memories.figures.other_types import SAID, other
from ff_memories.figures.theme import BLACK
from ff_memories.judge.evidence import of_types

LOOK: Options = {"color": "white", "stroke": BLACK, "strokeWidth": 0.5, "opacity": 1, "clip": True}


def _chart(frame: pl.DataFrame, column: str) -> alt.Chart:
    return alt.Chart(source(frame.drop_nulls(column)))


def with_other(
    frame: pl.DataFrame, table: pl.DataFrame, column: str, shown: str, measure: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.DataFrame:
    """Add the column ``shown`` of the same measure under the other choice to a frame by layer, with its suffix.

    ``column``: a column that the table repeats with a suffix if it has the other choice. Without it, the frame is
    returned unchanged.
    """
    types = other(table, column)
    if types is None:
        return frame
    known = measure(of_types(table, types)).select("layer", pl.col(shown).alias(f"{shown}_{types}"))
    return frame.join(known, on="layer", how="left", maintain_order="left")


def by_layer(frame: pl.DataFrame, column: str, context: FigureContext) -> list[alt.Chart]:
    """Return a hollow tick at each value of ``column`` under the other choice, on the layer axis."""
    types = other(frame, column)
    if types is None:
        return []
    mark = _chart(frame, f"{column}_{types}").mark_tick(thickness=1.4, width={"band": 0.4}, **LOOK)
    return [mark.encode(x=layer_axis(context), y=f"{column}_{types}:Q")]


def across(frame: pl.DataFrame, column: str, x: alt.X) -> list[alt.Chart]:
    """Return such ticks on a numeric axis ``x``, from ``tick_from`` to ``tick_to``."""
    types = other(frame, column)
    if types is None:
        return []
    y = f"{column}_{types}:Q"
    halo = _chart(frame, y[:-2]).mark_rule(strokeWidth=2.8, color=BLACK).encode(x=x, x2="tick_to", y=y)
    return [halo, _chart(frame, y[:-2]).mark_rule(strokeWidth=1.8, color="white").encode(x=x, x2="tick_to", y=y)]


def note(frame: pl.DataFrame, column: str) -> list[str]:
    """Return the note that explains the ticks, if there are any."""
    types = other(frame, column)
    return [f"hollow ticks: the same {SAID[types]}"] if types else []
