"""Draw the paper's own values beside ours: a band for a range, a line for one value of several layers, else a mark.

A mark appears only if the paper gives a single value: a mark in the middle of a range would look like a datum.
"""

from collections.abc import Iterable
from typing import NamedTuple

import altair as alt
import polars as pl

from ff_memories.figures.context import FigureContext
from ff_memories.figures.marks import HALO, layer_axis, legend_columns, legend_fits, source
from ff_memories.figures.registry import DRAWN
from ff_memories.figures.theme import BAND, BLACK

PAPER_LAYERS = 16  # its values apply to a model of this depth only
VOCABULARY = 267_744  # token types of its model, to turn its ranks into shares
STATED, READ_OFF = "stated", "read off the figure"
SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("figure", "series"), pl.String),
    **dict.fromkeys(("first_layer", "last_layer"), pl.Int64),
    **dict.fromkeys(("left", "right", "low", "high"), pl.Float64),
    **dict.fromkeys(("known", "named"), pl.String),
}
IN_FULL = {STATED: "stated in text", READ_OFF: "read off figure"}
BRIEFLY = {STATED: "text", READ_OFF: "figure"}
SHAPES = {STATED: "diamond", READ_OFF: "circle"}
DASHES: dict[str, list[float]] = {STATED: [1, 0], READ_OFF: [2.5, 1.5]}
SYMBOLS = {"band": "M-1,-0.6L1,-0.6L1,0.6L-1,0.6Z", "line": "M-1,0L1,0"}  # in the legend; of a mark, its shape
LIGHT = 0.4  # opacity at which two overlapping ranges are both visible


def all_values(figures: Iterable[str] = DRAWN) -> pl.DataFrame:
    """Return the paper's values that figures declare, one row each, in the order of their files."""
    rows = []
    for figure in figures:
        for how, entries in DRAWN[figure].paper.items():
            for entry in entries:
                first, last = entry.get("layers", (None, None))
                left, right = entry.get("probability", (None, None))
                low, high = entry["range"] if "range" in entry else (entry["value"], entry["value"])
                named = entry.get("named", "")
                rows.append((figure, entry["series"], first, last, left, right, low, high, how, named))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def values(context: FigureContext) -> pl.DataFrame:
    """Return the paper's values that a run's figure shows; none if they are switched off or do not fit the run.

    A model of another depth gets none: scaled to a relative depth, a mark would appear at a layer that the paper never
    measured. For a model of `transformers` they are no target, and values by probability apply to the paper's own
    vocabulary and model only.
    """
    values_ = all_values([context.figure])
    if not context.options.paper_values or context.scope == "model" or context.layers != PAPER_LAYERS:
        return values_.clear()
    return values_ if context.scope == "paper" else values_.filter(pl.col("left").is_null())


class Overlay(NamedTuple):
    """The charts drawn behind our marks and those drawn above them."""

    behind: list[alt.Chart]
    above: list[alt.Chart]


def by_layer(
    context: FigureContext, colours: dict[str, str] | None = None, scale: float = 1, covered: bool = False
) -> Overlay:
    """Return the paper's values by layer; all are black, without a colour for each of several series.

    ``scale`` converts to the axis's unit. ``covered``: our marks hide what is behind, so outlines are drawn above.
    """
    by = values(context).rename({"first_layer": "from", "last_layer": "to"})
    by = by.with_columns(pl.col("low", "high") * scale)
    return overlay(context, by, layer_axis(context, "from"), colours, covered)


def overlay(
    context: FigureContext, rows: pl.DataFrame, x: alt.X, colours: dict[str, str] | None = None, covered: bool = False
) -> Overlay:
    """Return rows of ``values`` as charts; ``from`` and ``to`` say where on the axis ``x`` each one holds."""
    if rows.is_empty():
        return Overlay([], [])
    form = (
        pl.when(pl.col("low") < pl.col("high"))
        .then(pl.lit("band"))
        .when(pl.col("from") < pl.col("to"))
        .then(pl.lit("line"))
        .otherwise(pl.lit("mark"))
    )
    rows = rows.with_columns(form.alias("form"))
    labels = [called(context, *row) for row in rows.select("form", "known", "named").iter_rows()]
    rows = rows.with_columns(pl.Series("paper", labels))
    names = colours or {}
    paint = alt.Scale(domain=list(names), range=list(names.values()))
    stroke = alt.Stroke("series:N", legend=None, scale=paint) if colours else alt.StrokeValue(BLACK)
    fill = alt.Fill("series:N", legend=None, scale=paint) if colours else alt.FillValue(BAND)
    dash = alt.StrokeDash("known:N", legend=None, scale=alt.Scale(domain=list(DASHES), range=list(DASHES.values())))
    start, end = x.bandPosition(0), alt.X2("to", bandPosition=1)
    tip = ["paper:N", "series:N", "low:Q", "high:Q"]

    def of(form: str) -> alt.Chart:
        return alt.Chart(source(rows.filter(pl.col("form") == form)))

    bands = of("band").encode(x=start, x2=end, y="low:Q", y2="high:Q")
    lines = of("line").encode(x=start, x2=end, y="low:Q")
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
    above = [*rules, marks, _legend(context, rows, covered)]
    return Overlay([], [*edges, *above]) if covered else Overlay([ground, *edges], above)


def called(context: FigureContext, form: str, how: str, named: str) -> str:
    """Return the legend label of the paper's values of one form, abbreviated if the figure is narrow."""
    of = f": {named}" if named else ""
    whole = ("paper's range" if form == "band" else "paper") + f" ({IN_FULL[how]}){of}"
    return whole if legend_fits(context.width, [whole]) else f"paper ({BRIEFLY[how]}){of}"


def _legend(context: FigureContext, values_: pl.DataFrame, covered: bool) -> alt.Chart:
    """Return an invisible chart that adds a legend: each form's symbol with its fill and dash."""
    rows = values_.select("paper", "form", "known").unique(maintain_order=True).to_dicts()
    labels = [row["paper"] for row in rows]
    legend = alt.Legend(
        symbolStrokeWidth=0.8, symbolSize=34, symbolOpacity=1, columns=legend_columns(context.width, labels)
    )
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
