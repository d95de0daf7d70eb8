"""Figures 3 and B1: several means by layer, as a line for each."""

from collections.abc import Mapping

import altair as alt
import polars as pl

from ff_memories.figures.context import FigureContext
from ff_memories.figures.links import linked
from ff_memories.figures.marks import (
    layer_axis,
    source,
    tooltips,
)

Looks = Mapping[str, tuple[list[float], str]]  # a dash and a shape for each line


def lines(
    frame: pl.DataFrame,
    context: FigureContext,
    series: str,
    looks: Looks,
    colours: Mapping[str, str],
    y: alt.Y,
    legend: alt.Legend | None = None,
) -> list[alt.Chart]:
    """Return a line through ``mean`` for each series, distinguished by colour, lightness, dash and shape.

    Bars have the intervals; ticks are at the medians, if the frame has them.
    """
    names = list(looks)
    paint = alt.Scale(domain=names, range=[colours[name] for name in names])
    marks_of = alt.Scale(domain=names, range=[shape for _, shape in looks.values()])
    dashes = alt.Scale(domain=names, range=[dash for dash, _ in looks.values()])
    field = f"{series}:N"
    stroke = alt.Stroke(field, legend=None, scale=paint)
    base = alt.Chart(source(linked(frame, context.figure))).encode(x=layer_axis(context))
    ticks = base.mark_point(shape="stroke", size=30, strokeWidth=0.9, opacity=1, clip=True)
    return [
        base.mark_line(strokeWidth=1.2, clip=True).encode(
            y=y, stroke=stroke, strokeDash=alt.StrokeDash(field, legend=None, scale=dashes)
        ),
        base.mark_rule(strokeWidth=0.8, clip=True).encode(y="low:Q", y2="high:Q", stroke=stroke),
        *([ticks.encode(y="median:Q", stroke=stroke)] if "median" in frame.columns else []),
        base.mark_point(filled=True, size=18, opacity=1, clip=True).encode(
            y="mean:Q",
            color=alt.Color(field, title=None, scale=paint, legend=legend or alt.Undefined),
            shape=alt.Shape(field, title=None, scale=marks_of, legend=legend or alt.Undefined),
            tooltip=tooltips(frame),
            href="href:N",
        ),
    ]
