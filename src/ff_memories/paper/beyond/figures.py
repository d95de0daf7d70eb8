"""Figures B1 to B3: what is left of a memory's direct effect, and what predictions lose."""

from dataclasses import replace

import altair as alt
import numpy as np
import polars as pl

from ff_memories.config import Settings
from ff_memories.figures import controls
from ff_memories.figures.context import Drawing, FigureContext, Tables
from ff_memories.figures.lines import Looks, lines
from ff_memories.figures.marks import (
    INTERVAL,
    counted,
    finish,
    legend_columns,
    share_axis,
)
from ff_memories.figures.phrases import NO_DATA, percent
from ff_memories.figures.theme import CONTROL_COLOURS
from ff_memories.paper.beyond import figureb2, figureb3, sensitivity
from ff_memories.paper.beyond import measures as removal

SERIES = {"none": "the memory", "matched": "a matched memory", "direction": "a random direction"}
CONTROL_LOOKS: Looks = {
    "the memory": ([1, 0], "circle"),
    "a matched memory": ([4, 2], "square"),
    "a random direction": ([1.5, 1.5], "triangle-up"),
}


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
    "figureb1": Drawing(effects, effects_chart, effects_headline),
    **figureb2.DRAWINGS,
    **figureb3.DRAWINGS,
    **sensitivity.DRAWINGS,
}
