"""The paper's own values over ours: hollow marks, with the outline of the layers and range each holds for."""

import math

import altair as alt
import polars as pl

from ff_memories.figures.context import FigureContext
from ff_memories.figures.marks import HALO, layer_axis, legend_columns, source
from ff_memories.figures.paper import READ_OFF, STATED
from ff_memories.figures.theme import BLACK

LEGEND = {STATED: "paper: stated in text", READ_OFF: "paper: read off figure"}
SHAPES = {STATED: "diamond", READ_OFF: "circle"}
DASHES: dict[str, list[float]] = {STATED: [1, 0], READ_OFF: [2.5, 1.5]}


def paper_marks(
    context: FigureContext, colours: dict[str, str] | None = None, limit: float = math.inf, halo: bool = False
) -> list[alt.Chart]:
    """Return the paper's values by layer, or nothing where there are none to show.

    The mark's shape tells values stated in the text from our readings of the paper's figures, and so does the
    outline's dash. ``colours`` gives the colour of each series where the figure has several; else all are black.
    Values whose middle lies beyond ``limit``, the end of the axis, are left out. A ``halo`` keeps the outlines apart
    from bars that they cross.
    """
    known = context.paper_values.filter((pl.col("low") + pl.col("high")) / 2 <= limit)
    known = known.rename({"first_layer": "from", "last_layer": "to"})
    place = pl.int_range(pl.len()).over("from", "to") + 1  # series with one range: side by side, not one over another
    middle = pl.col("from") + (pl.col("to") - pl.col("from")) * place // (pl.len().over("from", "to") + 1)
    return _marks(context, known, middle, layer_axis(context, "from"), colours, halo)


def paper_marks_by_probability(context: FigureContext, x: alt.X) -> list[alt.Chart]:
    """Return the paper's values by top probability on the axis ``x``, whose field is ``from``."""
    known = context.paper_values.rename({"left": "from", "right": "to"})
    return _marks(context, known, (pl.col("from") + pl.col("to")) / 2, x)


def _marks(
    context: FigureContext,
    known: pl.DataFrame,
    middle: pl.Expr,
    x: alt.X,
    colours: dict[str, str] | None = None,
    halo: bool = False,
) -> list[alt.Chart]:
    if known.is_empty():
        return []
    present = [name for name in LEGEND if name in known["known"]]
    shapes = alt.Scale(domain=[LEGEND[name] for name in present], range=[SHAPES[name] for name in present])
    dashes = alt.Scale(domain=list(DASHES), range=list(DASHES.values()))
    stroke: alt.Stroke | alt.StrokeValue = alt.StrokeValue(BLACK)
    if colours:
        scale = alt.Scale(domain=list(colours), range=list(colours.values()))
        stroke = alt.Stroke("series:N", legend=None, scale=scale)
    points = known.select(
        "series", "low", "high",
        middle.alias("from"),
        ((pl.col("low") + pl.col("high")) / 2).alias("middle"),
        pl.col("known").replace_strict(LEGEND).alias("paper"),
    )  # fmt: skip
    base = alt.Chart(source(points)).encode(x=x, y="middle:Q")
    sides = alt.Chart(source(_outline(known))).encode(x=x, x2="to", y="low:Q", y2="high:Q")
    ground = [sides.mark_rule(**HALO, clip=True)] if halo else []
    outline = sides.mark_rule(strokeWidth=0.8, clip=True).encode(
        stroke=stroke, strokeDash=alt.StrokeDash("known:N", legend=None, scale=dashes)
    )
    # Two marks in one place: a filled and stroked one would have a legend without its stroke.
    inside = base.mark_point(filled=True, color="white", size=22, opacity=1).encode(
        shape=alt.Shape("paper:N", legend=None, scale=shapes)
    )
    legend = alt.Legend(
        symbolStrokeColor=BLACK, symbolStrokeWidth=0.9, symbolSize=26, columns=legend_columns(context, shapes.domain)
    )
    hollow = base.mark_point(filled=False, color=BLACK, strokeWidth=0.9, size=22, opacity=1).encode(
        shape=alt.Shape("paper:N", title=None, scale=shapes, legend=legend),
        stroke=stroke,
        tooltip=["paper:N", "series:N", "low:Q", "high:Q"],
    )
    return [*ground, outline, inside, hollow]


def _outline(known: pl.DataFrame) -> pl.DataFrame:
    """Return the four sides of each entry's rectangle as segments; of a single value one side or none is left."""
    sides = [
        ("from", "to", "low", "low"),
        ("from", "to", "high", "high"),
        ("from", "from", "low", "high"),
        ("to", "to", "low", "high"),
    ]
    parts = [
        known.select(
            pl.col("known", "series"),
            pl.col(a).alias("from"),
            pl.col(b).alias("to"),
            pl.col(c).alias("low"),
            pl.col(d).alias("high"),
        )
        for a, b, c, d in sides
    ]
    lines = pl.concat(parts).unique(maintain_order=True)
    return lines.filter((pl.col("from") != pl.col("to")) | (pl.col("low") != pl.col("high")))
