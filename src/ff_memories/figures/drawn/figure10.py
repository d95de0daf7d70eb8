"""Figure 10: the probability of the output under the residual, by layer."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.config import Settings
from ff_memories.figures.context import FigureContext, Tables
from ff_memories.figures.parts import controls, overlay
from ff_memories.figures.parts.marks import box_note, boxes, counted, finish
from ff_memories.figures.parts.phrases import both_ends, first_and_last
from ff_memories.figures.registry import Figure

FIGURE = Figure(
    section="5.2",
    place=2,
    caption="Probability that the residual at each layer assigns to the model's final output.",
    tables=("refinement",),
    untrained="median",
    paper={
        "read off the figure": (
            {"series": "median", "named": "median", "layers": (1, 7), "value": 0.0},
            {"series": "median", "named": "median", "layers": (14, 16), "range": (0.6, 0.8)},
        ),
    },
)


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 10: quartiles of the output token's probability under the residual per layer."""
    return measures.residual_probabilities(tables["refinement"])


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 10: boxes."""
    y = alt.Y("low:Q", title="probability", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=6))
    notes = [counted(frame, context, "examples"), box_note(), *controls.untrained(frame)]
    theirs = overlay.by_layer(context)
    marks = theirs.behind + boxes(frame, context, y) + controls.by_layer(frame, context) + theirs.above
    return finish(marks, context, frame, notes, headline)


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 10: whether the residual's probability of the output grows."""
    ends = first_and_last(frame)
    said = "grows" if ends[-1]["median"] > ends[0]["median"] else "does not grow"
    if len(ends) == 1:
        return f"The residual's median probability of the output: {both_ends(frame, 'median')}"
    return f"The residual's probability of the output {said}: median {both_ends(frame, 'median')}"
