"""Figure B2, beyond the paper: memories' total effects against their direct ones, by layer."""

from dataclasses import replace

import altair as alt
import polars as pl

from ff_memories.config import Settings
from ff_memories.figures.context import Drawing, FigureContext, Tables
from ff_memories.figures.controls import LINE
from ff_memories.figures.links import linked
from ff_memories.figures.marks import counted, finish, source, tooltips, x_title
from ff_memories.figures.phrases import NO_DATA, percent
from ff_memories.figures.theme import BLUE, ORANGE
from ff_memories.paper.beyond import measures as removal


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure B2: each memory's mean ``direct`` and ``total``; ``n`` is the number of memories of its layer."""
    memories = removal.effects(tables["causal"], context.layers).filter(pl.col("control") == "none")
    key = (pl.col("memory") % removal.SIGNS // 2).alias("key")
    return memories.select("layer", key, "direct", "total", n=pl.len().over("layer"))


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure B2: a point for each memory, coloured by its layer, and the line where nothing is lost."""
    least, most = (frame["direct"].min(), frame["direct"].max()) if len(frame) else (-1.0, 1.0)
    ends = [{"direct": end, "total": end} for end in (least, most)]
    x = alt.X("direct:Q", title=x_title(context, "direct effect (change of logit)"))
    y = alt.Y("total:Q", title="total effect")
    colour = alt.Color(
        "layer:Q",
        scale=alt.Scale(domain=[1, max(2, context.layers - 1)], range=[ORANGE, BLUE], interpolate="rgb"),
        legend=alt.Legend(gradientLength=90, gradientThickness=6, tickCount=3, format="d"),
    )
    marks = [
        alt.Chart(source(ends)).mark_line(**LINE).encode(x=x, y=y),
        alt.Chart(source(linked(frame, context.figure)))
        .mark_point(size=14, strokeWidth=0.8, opacity=0.9)
        .encode(x=x, y=y, color=colour, tooltip=tooltips(frame), href="href:N"),
    ]
    below = replace(context, layers=context.layers - 1)
    notes = [counted(frame, below, "memories"), "line: total = direct"]
    return finish(marks, context, frame, notes, headline)


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure B2: how many memories' total effects have the sign of their direct ones."""
    if frame.is_empty():
        return NO_DATA
    kept = frame.select((pl.col("direct") * pl.col("total") > 0).mean()).item()
    return f"The layers above keep the sign of the direct effect for {percent(kept)} of the memories"


DRAWINGS = {"figureb2": Drawing(data, chart, headline)}
