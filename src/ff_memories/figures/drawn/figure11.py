"""Figure 11: whose prediction the layers' outputs follow."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.config import Settings
from ff_memories.figures.context import FigureContext, Tables
from ff_memories.figures.parts import controls, overlay
from ff_memories.figures.parts.marks import EDGES, counted, finish, stacked, stacks
from ff_memories.figures.parts.phrases import HALF, extremes
from ff_memories.figures.registry import Figure
from ff_memories.figures.theme import BLACK, BLUE, GREEN, ORANGE

FIGURE = Figure(
    section="5.2",
    place=3,
    caption="Whether a layer's output follows the residual's prediction, the feed-forward's, both or neither.",
    tables=("refinement",),
    untrained="mean",
    hatched=True,
    paper={
        "read off the figure": ({"series": "residual", "named": "residual", "layers": (1, 16), "range": (0.6, 0.85)},),
    },
)
KIND_NAMES = dict(
    zip(measures.KINDS, ["residual", "agreement (both)", "composition (neither)", "ffn (feed-forward)"], strict=True)
)
KIND_COLOURS = [BLUE, GREEN, ORANGE, BLACK]


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 11: share of examples per layer and kind of prediction."""
    return stacked(measures.refinement_kinds(tables["refinement"], settings.seed), "kind", measures.KINDS)


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 11: stacked bars."""
    notes = [counted(frame, context, "examples"), EDGES, *controls.untrained(frame, own=False)]
    theirs = overlay.by_layer(context, covered=True)
    shown = stacks(frame, context, "examples", KIND_NAMES, KIND_COLOURS)
    return finish(
        theirs.behind + shown + controls.edges(frame, context) + theirs.above, context, frame, notes, headline
    )


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 11: which prediction most outputs follow, over all layers."""
    says = {
        "residual": "the residual only",
        "agreement": "both residual and feed-forward",
        "composition": "neither residual nor feed-forward",
        "ffn": "the feed-forward only",
    }
    total = frame.group_by("series").agg(pl.col("mean").mean()).sort("mean", "series")
    top = total.row(-1, named=True)["series"]
    often = "Over all layers, most outputs follow"
    if total["mean"][-1] <= HALF:
        often = "The most frequent case: outputs follow"
    return f"{often} {says[top]}: {extremes(frame.filter(pl.col('series') == top), 'mean')}"
