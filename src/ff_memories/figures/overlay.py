"""Draw the paper's values beside ours: a band for a range, a line for one value of several layers, else a mark.

A mark appears only if the paper gives a single value: a mark in the middle of a range would look like a datum.
"""

from typing import NamedTuple

import altair as alt
import polars as pl

from ff_memories.figures.context import FigureContext
from ff_memories.figures.marks import HALO, layer_axis, legend_columns, legend_fits, source
from ff_memories.figures.paper import READ_OFF, STATED
from ff_memories.figures.theme import BAND, BLACK

SAID = {STATED: "stated in text", READ_OFF: "read off figure"}
BRIEFLY = {STATED: "text", READ_OFF: "figure"}
SHAPES = {STATED: "diamond", READ_OFF: "circle"}
DASHES: dict[str, list[float]] = {STATED: [1, 0], READ_OFF: [2.5, 1.5]}
SYMBOLS = {"band": "M-1,-0.6L1,-0.6L1,0.6L-1,0.6Z", "line": "M-1,0L1,0"}  # in the legend; of a mark, its shape
LIGHT = 0.4  # opacity at which two overlapping ranges are both visible


class Overlay(NamedTuple):
    """The charts drawn behind our marks and those drawn above them."""

    behind: list[alt.Chart]
    above: list[alt.Chart]


def by_layer(
    context: FigureContext, colours: dict[str, str] | None = None, scale: float = 1, covered: bool = False
) -> Overlay:
    """Return the paper's values by layer, or nothing if there are none to show.

    Args:
        context: the figure's context.
        colours: the colour of each series if the figure has several; otherwise all are black.
        scale: a factor that converts the values to the axis's unit.
        covered: whether our marks hide what is behind them; outlines of ranges are then drawn above.
    """
    known = context.paper_values.rename({"first_layer": "from", "last_layer": "to"})
    known = known.with_columns(pl.col("low", "high") * scale)
    return _overlay(context, known, layer_axis(context, "from"), colours, covered)


def by_probability(context: FigureContext, x: alt.X) -> Overlay:
    """Return the paper's values by top probability, on the axis ``x``, whose field is ``from``."""
    known = context.paper_values.rename({"left": "from", "right": "to"})
    return _overlay(context, known, x)


def _overlay(
    context: FigureContext,
    known: pl.DataFrame,
    x: alt.X,
    colours: dict[str, str] | None = None,
    covered: bool = False,
) -> Overlay:
    if known.is_empty():
        return Overlay([], [])
    form = (
        pl.when(pl.col("low") < pl.col("high"))
        .then(pl.lit("band"))
        .when(pl.col("from") < pl.col("to"))
        .then(pl.lit("line"))
        .otherwise(pl.lit("mark"))
    )
    known = known.with_columns(form.alias("form"))
    known = known.with_columns(
        pl.Series(
            "paper", [called(context, **row) for row in known.select("form", "known", "named").iter_rows(named=True)]
        )
    )
    names = colours or {}
    paint = alt.Scale(domain=list(names), range=list(names.values()))
    stroke = alt.Stroke("series:N", legend=None, scale=paint) if colours else alt.StrokeValue(BLACK)
    fill = alt.Fill("series:N", legend=None, scale=paint) if colours else alt.FillValue(BAND)
    dash = alt.StrokeDash("known:N", legend=None, scale=alt.Scale(domain=list(DASHES), range=list(DASHES.values())))
    start, end = x.bandPosition(0), alt.X2("to", bandPosition=1)
    tip = ["paper:N", "series:N", "low:Q", "high:Q"]

    def of(form: str) -> alt.Chart:
        return alt.Chart(source(known.filter(pl.col("form") == form)))

    bands, lines = (
        of("band").encode(x=start, x2=end, y="low:Q", y2="high:Q"),
        of("line").encode(x=start, x2=end, y="low:Q"),
    )
    ground = bands.mark_bar(opacity=0.15 if colours else LIGHT, clip=True).encode(fill=fill, tooltip=tip)
    under = bands.mark_bar(fillOpacity=0, clip=True, **HALO)
    outline = bands.mark_bar(fillOpacity=0, strokeWidth=0.7, clip=True).encode(stroke=stroke, strokeDash=dash)
    rules = [
        lines.mark_rule(clip=True, **HALO),
        lines.mark_rule(strokeWidth=0.9, clip=True).encode(stroke=stroke, strokeDash=dash, tooltip=tip),
    ]
    shapes = alt.Scale(domain=list(SHAPES), range=list(SHAPES.values()))
    marks = (
        of("mark")
        .mark_point(fill="white", strokeWidth=0.9, size=22, opacity=1)
        .encode(x=x, y="low:Q", stroke=stroke, tooltip=tip)
        .encode(shape=alt.Shape("known:N", legend=None, scale=shapes))
    )
    edges = [under, outline] if covered else [outline]
    above = [*rules, marks, _legend(context, known, covered)]
    return Overlay([], [*edges, *above]) if covered else Overlay([ground, *edges], above)


def called(context: FigureContext, form: str, known: str, named: str) -> str:
    """Return the legend label of the paper's values of one form, abbreviated if the figure is narrow."""
    of = f": {named}" if named else ""
    whole = ("paper's range" if form == "band" else "paper") + f" ({SAID[known]}){of}"
    return whole if legend_fits(context, [whole]) else f"paper ({BRIEFLY[known]}){of}"


def _legend(context: FigureContext, known: pl.DataFrame, covered: bool) -> alt.Chart:
    """Return an invisible chart that adds a legend: each form's symbol with its fill and dash."""
    rows = known.select("paper", "form", "known").unique(maintain_order=True).to_dicts()
    labels = [row["paper"] for row in rows]
    legend = alt.Legend(symbolStrokeWidth=0.8, symbolSize=34, symbolOpacity=1, columns=legend_columns(context, labels))
    band = "white" if covered else f"{BAND}{round(255 * LIGHT):02x}"
    looks: dict[str, list[str] | list[list[float]]] = {
        "shape": [SYMBOLS.get(row["form"]) or SHAPES[row["known"]] for row in rows],
        "fill": [band if row["form"] == "band" else "white" for row in rows],
        "stroke": [BLACK for _ in rows],
        "strokeDash": [[] if row["form"] == "mark" else DASHES[row["known"]] for row in rows],
    }
    channels = {"shape": alt.Shape, "fill": alt.Fill, "stroke": alt.Stroke, "strokeDash": alt.StrokeDash}
    unseen = alt.Chart(source([{"paper": label} for label in labels])).mark_point(opacity=0)
    return unseen.encode(
        **{
            name: channel("paper:N", title=None, scale=alt.Scale(domain=labels, range=looks[name]), legend=legend)
            for name, channel in channels.items()
        }
    )
