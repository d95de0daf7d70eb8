"""Figure 9: how often the residual already predicts the output, by layer."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.config import Settings
from ff_memories.figures.context import FigureContext, Tables
from ff_memories.figures.parts import controls
from ff_memories.figures.parts.marks import share_axis
from ff_memories.figures.parts.phrases import both_ends, first_and_last, percent
from ff_memories.figures.parts.rates import chance_notes, rate_bars
from ff_memories.figures.registry import Figure

FIGURE = Figure(
    section="5.2",
    place=1,
    caption="How often the residual before a layer's feed-forward already predicts the model's final output.",
    tables=("refinement",),
    untrained="mean",
    paper={
        # The paper says "a third" for the lowest layers without naming them. We draw it over the first five. Our
        # reading of the bar at layer 1 contradicts it, so we leave that reading out.
        "stated": ({"series": "residual predicts", "layers": (1, 5), "value": 0.33},),
        "read off the figure": ({"series": "residual predicts", "layers": (16, 16), "value": 0.95},),
    },
)


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 9: share of examples per layer whose residual predicts the model's output, and the ``chance`` level."""
    rates = measures.residual_predicts(tables["refinement"], settings.seed)
    return controls.with_chance(rates, tables["refinement"], "residual_top", "model_top")


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 9: bars with intervals."""
    notes = chance_notes(frame, context, "examples", "residual and output")
    return rate_bars(frame, context, share_axis("mean", ["residual predicts", "the output"], [0, 1]), notes, headline)


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 9: whether the residual predicts the output more often in upper layers, with the untrained share."""
    ends = first_and_last(frame)
    last = ends[-1]
    bare = last.get("untrained")
    without = "" if bare is None else f" (untrained:\u00a0{percent(bare)})"
    if len(ends) == 1:
        share = percent(last["mean"])
        return f"In layer\u00a0{last['layer']}, the residual predicts the output in {share} of cases{without}"
    said = "more" if last["mean"] > ends[0]["mean"] else "no more"
    return f"The residual predicts the output {said} often in upper layers: {both_ends(frame, 'mean')}{without}"
