"""Figure B1, beyond the paper: the share of a memory's direct effect that is left after the layers above, by layer."""

from dataclasses import replace

import altair as alt
import numpy as np
import polars as pl

from ff_memories.claims import removal
from ff_memories.config import Settings
from ff_memories.figures.context import FigureContext, Tables
from ff_memories.figures.parts import controls
from ff_memories.figures.parts.links import linked
from ff_memories.figures.parts.marks import (
    INTERVAL,
    counted,
    finish,
    layer_axis,
    legend_columns,
    share_axis,
    source,
    tooltips,
)
from ff_memories.figures.parts.phrases import NO_DATA, percent
from ff_memories.figures.registry import Figure
from ff_memories.figures.theme import BLACK, BLUE, ORANGE

FIGURE = Figure(
    section="beyond",
    place=1,
    caption="What changing a memory (by default, to its mean) does to the tokens that its value promotes, once the "
    "layers above have run: as a share of what the value does by itself. Beside it, what changing a matched memory, or "
    "as much in a random direction, does to the same tokens. The last layer is left out.",
    tables=("causal",),
    untrained="mean",
)
SERIES = {"none": "the memory", "matched": "a matched memory", "direction": "a random direction"}
COLOURS = dict(zip(SERIES.values(), [BLUE, ORANGE, BLACK], strict=True))


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure B1: share of the direct effect that is left, per layer and ``series``, over memories."""
    shares = removal.shares(tables["causal"], context.layers, settings.seed)
    return shares.with_columns(pl.col("control").replace_strict(SERIES, return_dtype=pl.String)).rename(
        {"control": "series"}
    )


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure B1: a line for what is changed, distinguished by colour, lightness, dash and shape."""
    names = list(COLOURS)
    colours = alt.Scale(domain=names, range=list(COLOURS.values()))
    legend = alt.Legend(columns=legend_columns(context, names))
    colour = alt.Color("series:N", title=None, scale=colours, legend=legend)
    stroke = alt.Stroke("series:N", legend=None, scale=colours)
    shapes = alt.Scale(domain=names, range=["circle", "square", "triangle-up"])
    shape = alt.Shape("series:N", title=None, scale=shapes, legend=legend)
    dash = alt.StrokeDash("series:N", legend=None, scale=alt.Scale(domain=names, range=[[1, 0], [4, 2], [1.5, 1.5]]))
    y = share_axis("mean", ["share of the", "direct effect left"], _ends(frame))
    base = alt.Chart(source(linked(frame, context.figure))).encode(x=layer_axis(context))
    lines = [
        *controls.level(1),
        base.mark_line(strokeWidth=1.2, clip=True).encode(y=y, stroke=stroke, strokeDash=dash),
        base.mark_rule(strokeWidth=0.8, clip=True).encode(y="low:Q", y2="high:Q", stroke=stroke),
        base.mark_point(filled=True, size=18, opacity=1, clip=True).encode(
            y="mean:Q", color=colour, shape=shape, tooltip=tooltips(frame), href="href:N"
        ),
    ]
    notes = [
        counted(frame, replace(context, layers=context.layers - 1), "memories"),
        f"bars: {INTERVAL} over memories, cut at the axis",
    ]
    notes += ["dotted line: all of it is left", *controls.untrained(frame, own=False)]
    return finish(controls.by_series(frame, context, "series", COLOURS) + lines, context, frame, notes, headline)


def _ends(frame: pl.DataFrame) -> list[float]:
    """Return the axis limits that fit none and all of the effect and memories' means, with room for intervals."""
    shown = [0.0, 1.0, *frame.filter(pl.col("series") != SERIES["direction"])["mean"].to_list()]
    room = 0.15 * (max(shown) - min(shown))
    return [min(shown) - room, max(shown) + room]


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure B1: how much of a memory's direct effect is left, and how much another memory does."""
    if frame.is_empty():
        return NO_DATA
    means = [frame.filter(pl.col("series") == SERIES[name])["mean"].to_numpy() for name in ("none", "matched")]
    own, *other = [percent(float(np.median(of))) for of in means if len(of)]
    said = f"Of a memory's direct effect, {own} is left in the median layer"
    return f"{said}; removing a matched memory does {other[0]}" if other else said
