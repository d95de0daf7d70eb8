"""Figures 4, 8 and 9: how often something is so, by layer, as bars with intervals."""

import altair as alt
import polars as pl

from ff_memories.figures import beside, controls, overlay
from ff_memories.figures.context import Drawing, FigureContext, Headline, Measure
from ff_memories.figures.links import linked
from ff_memories.figures.marks import (
    INTERVAL,
    SEEN_THROUGH,
    counted,
    finish,
    layer_axis,
    share_axis,
    source,
    thin,
    tooltips,
)
from ff_memories.figures.theme import BLACK, BLUE, LIGHT_BLUE


def bars(frame: pl.DataFrame, context: FigureContext, y: alt.Y) -> list[alt.Chart]:
    """Return one bar per layer with the interval of its mean: columns ``layer``, ``mean``, ``low``, ``high``."""
    base = alt.Chart(source(linked(frame, context.figure))).encode(x=layer_axis(context))
    return [
        base.mark_bar(color=LIGHT_BLUE, stroke=BLUE, strokeWidth=thin(context), fillOpacity=SEEN_THROUGH).encode(
            y=y, tooltip=tooltips(frame), href="href:N"
        ),
        base.mark_rule(color=BLACK, strokeWidth=thin(context)).encode(y="low:Q", y2="high:Q"),
    ]


def rates(
    measure: Measure, headline: Headline, title: str | list[str], unit: str, pairs: str = "", whole: bool = True
) -> Drawing:
    """Return how rates are drawn: between the paper's bands and the lines of chance and of untrained models.

    Args:
        title: of the y axis.
        unit: what each bar counts.
        pairs: of what the random pairs are that chance is known by, if the frame has it.
        whole: whether the axis always reaches 100 %.
    """

    def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
        y = share_axis("mean", title, [0, 1] if whole or frame.is_empty() else None)
        theirs = overlay.by_layer(context)
        marks = [
            *theirs.behind,
            *bars(frame, context, y),
            *controls.by_layer(frame, context),
            *beside.by_layer(frame, "mean", context),
            *theirs.above,
        ]
        notes = [counted(frame, context, unit), f"lines: {INTERVAL}", *controls.untrained(frame)]
        notes += [f"dotted: chance (random pairs of {pairs})"] if pairs else []
        return finish(marks, context, frame, notes + beside.note(frame, "mean"), headline)

    return Drawing(measure, chart, headline)
