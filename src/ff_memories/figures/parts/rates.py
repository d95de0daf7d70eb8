"""Draw rates by layer as bars, with all that stands beside them."""

import altair as alt
import polars as pl

from ff_memories.figures.context import FigureContext
from ff_memories.figures.parts import beside, controls, overlay
from ff_memories.figures.parts.marks import Headline, bars, finish


def rate_bars(
    frame: pl.DataFrame, context: FigureContext, y: alt.Y, notes: list[str], headline: Headline
) -> alt.LayerChart:
    """Return bars by layer, in front of the paper's bands and the chance lines."""
    theirs = overlay.by_layer(context)
    marks = [
        *theirs.behind,
        *controls.by_layer(frame, context),
        *bars(frame, context, y),
        *beside.by_layer(frame, "mean", context),
        *theirs.above,
    ]
    return finish(marks, context, frame, notes + beside.note(frame, "mean"), headline)
