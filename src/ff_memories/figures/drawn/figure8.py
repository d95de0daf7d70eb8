"""Figure 8: how often no memory makes its layer's prediction, by layer."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.config import Settings
from ff_memories.figures.context import FigureContext, Tables
from ff_memories.figures.parts import beside, controls
from ff_memories.figures.parts.marks import INTERVAL, counted, share_axis
from ff_memories.figures.parts.phrases import HALF, extremes
from ff_memories.figures.parts.rates import rate_bars
from ff_memories.figures.registry import Figure

FIGURE = Figure(
    section="5.1",
    place=1,
    caption="How often a layer's prediction differs from that of every memory (every active memory, unless "
    "configured otherwise).",
    tables=("composition",),
    untrained="mean",
    paper={
        "stated": (  # the minimum over all layers
            {"series": "at least", "named": "least layer", "layers": (1, 16), "value": 0.68},
        ),
        "read off the figure": ({"series": "zero agreement", "named": "bars", "layers": (5, 9), "range": (0.85, 0.9)},),
    },
)


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 8: share of examples with zero agreement per layer."""
    rates = measures.zero_agreement(tables["composition"], settings.seed)
    return beside.with_other(
        rates,
        tables["composition"],
        "agreeing_memories",
        "mean",
        lambda composition: measures.zero_agreement(composition, settings.seed),
    )


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 8: bars with intervals."""
    notes = [counted(frame, context, "examples"), f"lines: {INTERVAL}", *controls.untrained(frame)]
    return rate_bars(frame, context, share_axis("mean", ["examples with", "zero agreement"], [0, 1]), notes, headline)


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 8: how often no memory makes its layer's prediction."""
    low, high = frame["mean"].to_numpy().min(), frame["mean"].to_numpy().max()
    where = "Usually" if low > HALF else "In some layers, usually" if high > HALF else "Sometimes"
    if high == 0:
        return "Some active memory always predicts what its layer predicts"
    return f"{where} no active memory predicts what its layer predicts: {extremes(frame, 'mean')}"
