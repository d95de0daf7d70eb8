"""Figures 7 to 11: active memories, agreement with the layer, and what predicts the output."""

import altair as alt
import polars as pl

from ff_memories.config import Settings
from ff_memories.figures import controls
from ff_memories.figures.charts import BOXES, EDGES, box_chart, rates, stack_chart, stacked
from ff_memories.figures.context import Drawing, Drawn, FigureContext, Frames
from ff_memories.figures.marks import both_ends, counted, extremes, share_axis
from ff_memories.figures.theme import KIND_COLOURS
from ff_memories.judge.measures import boxes, means
from ff_memories.paper.layers import measures

RANDOM_KEYS = 0.5  # without bias, a key from a symmetric distribution is active for half of all inputs
KIND_NAMES = dict(
    zip(measures.KINDS, ["residual", "agreement (both)", "composition (neither)", "ffn (feed-forward)"], strict=True)
)


def active(tables: Frames, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 7: quartiles of the share of active memories per layer; of effective ones if no memory is inactive."""
    if not context.active:
        return boxes(tables["composition"], "effective")
    return measures.active_memories(tables["composition"], context.keys)


def active_chart(frame: pl.DataFrame, context: FigureContext) -> Drawn:
    """Figure 7: boxes, beside the level of random keys."""
    n = counted(frame, context, "examples")
    if not context.active:
        notes = [n, "effective: as many equal ones would add as much", *([] if frame.is_empty() else [BOXES])]
        return box_chart(frame, context, alt.Y("low:Q", title="effective memories"), notes, None)
    notes = [f"{n}, {context.keys:,} memories", BOXES, "dotted: random keys"]
    y = share_axis("low", "active memories", [0, 1])
    return box_chart(frame, context, y, notes, behind=controls.level(RANDOM_KEYS))


def active_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 7: what share of memories is active."""
    if not context.active:
        median = extremes(frame, "median", lambda value: f"{value:,.3g}")
        return f"The effective number of memories: median {median}"
    return f"Active memories: median {extremes(frame, 'median')}"


def probabilities_chart(frame: pl.DataFrame, context: FigureContext) -> Drawn:
    """Figure 10: boxes."""
    y = alt.Y("low:Q", title="probability", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=6))
    return box_chart(frame, context, y, [counted(frame, context, "examples"), BOXES])


def residual_predicts(tables: Frames, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 9: share of examples per layer whose residual predicts the model's output, and the ``chance`` level."""
    shares = measures.residual_predicts(tables["refinement"], settings.seed)
    return controls.with_chance(shares, tables["refinement"], "residual_top", "model_top")


def kinds(tables: Frames, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 11: share of examples per layer and kind of prediction."""
    hits = (
        tables["refinement"].select("layer", (pl.col("kind") == kind).alias("hit"), pl.lit(kind).alias("kind"))
        for kind in measures.KINDS
    )
    shares = means(pl.concat(hits), ["layer", "kind"], "hit", settings.seed)
    return stacked(shares, "kind", measures.KINDS)


def kinds_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 11: the kind with the largest share over all layers."""
    top = frame.group_by("series").agg(pl.col("mean").mean()).sort("mean", "series")["series"][-1]
    return f"The largest kind, {KIND_NAMES[top]}: {extremes(frame.filter(series=top), 'mean')}"


DRAWINGS = {
    "figure7": Drawing(active, active_chart, active_headline),
    "figure8": rates(
        lambda tables, settings, _: measures.zero_agreement(tables["composition"], settings.seed),
        lambda frame, _: f"No active memory predicts what its layer predicts: {extremes(frame, 'mean')}",
        ["examples with", "zero agreement"],
        "examples",
    ),
    "figure9": rates(
        residual_predicts,
        lambda frame, _: f"The residual predicts the output: {both_ends(frame, 'mean')}",
        ["residual predicts", "the output"],
        "examples",
        "residual and output",
    ),
    "figure10": Drawing(
        lambda tables, _, __: boxes(tables["refinement"], "residual_probability"),
        probabilities_chart,
        lambda frame, _: f"The residual's median probability of the output: {both_ends(frame, 'median')}",
    ),
    "figure11": Drawing(
        kinds,
        lambda frame, context: stack_chart(frame, context, "examples", KIND_NAMES, KIND_COLOURS, EDGES),
        kinds_headline,
    ),
}
