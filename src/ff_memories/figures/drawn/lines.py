"""Figures 3 and B1: several means by layer, as a line for each."""

from collections.abc import Mapping
from dataclasses import replace

import altair as alt
import numpy as np
import polars as pl

from ff_memories.claims import measures, removal
from ff_memories.config import Settings
from ff_memories.figures.context import Drawing, FigureContext, Tables
from ff_memories.figures.parts import controls, overlay
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
from ff_memories.figures.parts.phrases import NO_DATA, both_ends, percent
from ff_memories.figures.theme import CONTROL_COLOURS, MUTATION_COLOURS

BULK = 0.05  # how far keys near zero may move a mean before Figure 3's axis ignores it
Looks = Mapping[str, tuple[list[float], str]]  # a dash and a shape for each line
MUTATION_LOOKS: Looks = {
    "first": ([4, 2], "square"),
    "last": ([1, 0], "circle"),
    "random": ([1.5, 1.5], "triangle-up"),
}
SERIES = {"none": "the memory", "matched": "a matched memory", "direction": "a random direction"}
CONTROL_LOOKS: Looks = {
    "the memory": ([1, 0], "circle"),
    "a matched memory": ([4, 2], "square"),
    "a random direction": ([1.5, 1.5], "triangle-up"),
}


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


def mutations(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 3: mean relative change of the coefficient per layer and removed token, over keys."""
    near_zero = measures.NEAR_ZERO[settings.precision]
    frame = measures.mutation_changes(tables["mutations"], settings.mutations.mean, settings.seed, near_zero)
    return frame.with_columns(pl.col("mutation").cast(pl.String))


def beyond_the_bulk(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows whose mean keys near zero move by more than ``BULK``."""
    return frame.filter((pl.col("near_zero") > 0) & ((pl.col("mean") - pl.col("others")).abs() > BULK))


def bulk_axis(frame: pl.DataFrame, beyond: pl.DataFrame) -> list[float]:
    """Return the axis limits that fit all other rows with their intervals, and all medians."""
    rest = frame.join(beyond, on=["layer", "mutation"], how="anti")
    shown = [0.0, *rest["low"].to_list(), *rest["high"].to_list(), *frame["median"].to_list()]
    room = 0.05 * (max(shown) - min(shown))
    return [min(shown) - room, max(shown) + room]


def off_axis(beyond: pl.DataFrame) -> list[str]:
    """Return a note that lists the means beyond the axis and says why, if there are any."""
    if beyond.is_empty():
        return []
    layers = ", ".join(map(str, beyond["layer"].unique().sort()))
    most = max(beyond["mean"].to_list(), key=abs)
    why = "from keys with coefficients near zero"
    return [f"beyond the axis: means of layers {layers} (up to {100 * most:+,.0f}\u00a0%), {why}"]


def mutations_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 3: a line for each removed token."""
    beyond = beyond_the_bulk(frame)
    limits = [-1.0, 0.0] if frame.is_empty() else None if beyond.is_empty() else bulk_axis(frame, beyond)
    y = share_axis("mean", ["change in", "memory coefficient"], limits)
    notes = [counted(frame, context, "keys"), f"bars: {INTERVAL} over keys", "ticks: medians", *off_axis(beyond)]
    notes += controls.untrained(frame, own=False)
    theirs = overlay.by_layer(context, MUTATION_COLOURS)
    marks = [
        *theirs.behind,
        *controls.by_series(frame, context, "mutation", MUTATION_COLOURS),
        *lines(frame, context, "mutation", MUTATION_LOOKS, MUTATION_COLOURS, y),
        *theirs.above,
    ]
    return finish(marks, context, frame, notes, mutations_headline)


def mutations_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 3: which token's removal changes coefficients most, by medians, which keys near zero do not distort."""
    most = frame.group_by("mutation").agg(pl.col("median").abs().mean()).sort("median", "mutation")["mutation"][-1]
    token = "a random" if most == "random" else f"the {most}"
    shares = both_ends(frame.filter(pl.col("mutation") == most), "mean", signed=True)
    return f"Removing {token} token matters most: {shares}"


def effects(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure B1: share of the direct effect that is left, per layer and ``series``, over memories."""
    shares = removal.shares(tables["causal"], context.layers, settings.seed)
    return shares.with_columns(pl.col("control").replace_strict(SERIES, return_dtype=pl.String)).rename(
        {"control": "series"}
    )


def effects_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure B1: a line for what is changed, on an axis that fits none and all of the effect and memories' means."""
    shown = [0.0, 1.0, *frame.filter(pl.col("series") != SERIES["direction"])["mean"].to_list()]
    room = 0.15 * (max(shown) - min(shown))
    y = share_axis("mean", ["share of the", "direct effect left"], [min(shown) - room, max(shown) + room])
    legend = alt.Legend(columns=legend_columns(context, list(CONTROL_LOOKS)))
    marks = [
        *controls.by_series(frame, context, "series", CONTROL_COLOURS),
        *controls.level(1),
        *lines(frame, context, "series", CONTROL_LOOKS, CONTROL_COLOURS, y, legend),
    ]
    notes = [
        counted(frame, replace(context, layers=context.layers - 1), "memories"),
        f"bars: {INTERVAL} over memories, cut at the axis",
        "dotted line: all of it is left",
        *controls.untrained(frame, own=False),
    ]
    return finish(marks, context, frame, notes, effects_headline)


def effects_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure B1: how much of a memory's direct effect is left, and how much another memory does."""
    if frame.is_empty():
        return NO_DATA
    means = [frame.filter(pl.col("series") == SERIES[name])["mean"].to_numpy() for name in ("none", "matched")]
    own, *other = [percent(float(np.median(of))) for of in means if len(of)]
    said = f"Of a memory's direct effect, {own} is left in the median layer"
    return f"{said}; removing a matched memory does {other[0]}" if other else said


DRAWINGS = {
    "figure3": Drawing(mutations, mutations_chart, mutations_headline),
    "figureb1": Drawing(effects, effects_chart, effects_headline),
}
