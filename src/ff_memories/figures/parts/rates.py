"""Draw rates by layer as bars, with all that stands beside them."""

import altair as alt
import polars as pl

from ff_memories.figures.context import FigureContext
from ff_memories.figures.parts import beside, controls, overlay
from ff_memories.figures.parts.marks import INTERVAL, Headline, bars, counted, finish


def rate_bars(
    frame: pl.DataFrame, context: FigureContext, y: alt.Y, notes: list[str], headline: Headline
) -> alt.LayerChart:
    """Return bars by layer, between the paper's bands and the lines of chance and of untrained models."""
    theirs = overlay.by_layer(context)
    marks = [
        *theirs.behind,
        *bars(frame, context, y),
        *controls.by_layer(frame, context),
        *beside.by_layer(frame, "mean", context),
        *theirs.above,
    ]
    return finish(marks, context, frame, notes + beside.note(frame, "mean"), headline)


def chance_notes(frame: pl.DataFrame, context: FigureContext, unit: str, pairs: str) -> list[str]:
    """Return the notes of rates that are drawn with the level of random pairs; ``unit``: what each bar counts."""
    lines = [f"lines: {INTERVAL}", *controls.untrained(frame), f"dotted: chance (random pairs of {pairs})"]
    return [counted(frame, context, unit), *lines]
