"""Figures 4, 8 and 9: how often something is so, by layer, as bars with intervals."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.config import Settings
from ff_memories.figures.context import Drawing, FigureContext, Headline, Measure, Tables
from ff_memories.figures.parts import beside, controls, overlay
from ff_memories.figures.parts.links import linked
from ff_memories.figures.parts.marks import (
    INTERVAL,
    SEEN_THROUGH,
    counted,
    finish,
    layer_axis,
    share_axis,
    source,
    thin,
    tooltips,
)
from ff_memories.figures.parts.phrases import HALF, both_ends, extremes, first_and_last, percent
from ff_memories.figures.theme import BLACK, BLUE, LIGHT_BLUE


def bars(frame: pl.DataFrame, context: FigureContext, y: alt.Y) -> list[alt.Chart]:
    """Return one bar per layer with the interval of its mean: columns ``layer``, ``mean``, ``low``, ``high``."""
    base = alt.Chart(source(linked(frame, context.figure))).encode(x=layer_axis(context))
    return [
        base.mark_bar(color=LIGHT_BLUE, stroke=BLUE, strokeWidth=thin(context), fillOpacity=SEEN_THROUGH).encode(
            y=y, tooltip=tooltips(frame), href="href:N"
        ),
        base.mark_rule(color=BLACK, strokeWidth=thin(context)).encode(y="low:Q", y2="high:Q"),
    ]


def rates(
    measure: Measure, headline: Headline, title: str | list[str], unit: str, pairs: str = "", whole: bool = True
) -> Drawing:
    """Return how rates are drawn: between the paper's bands and the lines of chance and of untrained models.

    Args:
        title: of the y axis.
        unit: what each bar counts.
        pairs: of what the random pairs are that chance is known by, if the frame has it.
        whole: whether the axis always reaches 100 %.
    """

    def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
        y = share_axis("mean", title, [0, 1] if whole or frame.is_empty() else None)
        theirs = overlay.by_layer(context)
        marks = [
            *theirs.behind,
            *bars(frame, context, y),
            *controls.by_layer(frame, context),
            *beside.by_layer(frame, "mean", context),
            *theirs.above,
        ]
        notes = [counted(frame, context, unit), f"lines: {INTERVAL}", *controls.untrained(frame)]
        notes += [f"dotted: chance (random pairs of {pairs})"] if pairs else []
        return finish(marks, context, frame, notes + beside.note(frame, "mean"), headline)

    return Drawing(measure, chart, headline)


def agreement(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 4: agreement rate per layer, and by ``chance``, with values paired with other keys' triggers.

    ``guess`` is the rate of the one token that most of a layer's triggers are followed by.
    """
    values, measure = tables["values"], lambda table: measures.agreement(table, settings.seed)
    cases = values.drop_nulls("agrees")
    guess = cases.group_by("layer").agg(guess=pl.col("next_token").unique_counts().max() / pl.len())
    found = measure(values).join(guess, on="layer", how="left", maintain_order="left")
    return beside.with_other(
        controls.with_chance(found, cases, "top_token", "next_token"), values, "agrees", "mean", measure
    )


def agreement_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 4: the layer whose values agree most with their top triggers, and whether that is above two controls."""
    peak = frame.sort("mean", "layer", descending=[True, False]).row(0, named=True)
    if not peak["mean"]:
        return f"No value predicts its top trigger's {context.target} token"
    said = (
        f"Values predict the {context.target} token most often in layer\u00a0{peak['layer']}: {percent(peak['mean'])}"
    )
    if context.layers == 1:
        said = f"Values predict the {context.target} token in {percent(peak['mean'])} of cases"
    for name, control in (("chance", "other keys' triggers"), ("guess", "always guessing one token")):
        if peak.get(name) is not None:
            said += f", {'above' if peak['mean'] > peak[name] else 'not above'} {control} ({percent(peak[name])})"
    return said


def zero_agreement(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 8: share of examples with zero agreement per layer."""
    composition, measure = tables["composition"], lambda table: measures.zero_agreement(table, settings.seed)
    return beside.with_other(measure(composition), composition, "agreeing_memories", "mean", measure)


def zero_agreement_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 8: how often no memory makes its layer's prediction."""
    low, high = frame["mean"].to_numpy().min(), frame["mean"].to_numpy().max()
    where = "Usually" if low > HALF else "In some layers, usually" if high > HALF else "Sometimes"
    if high == 0:
        return "Some active memory always predicts what its layer predicts"
    return f"{where} no active memory predicts what its layer predicts: {extremes(frame, 'mean')}"


def residual_predicts(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 9: share of examples per layer whose residual predicts the model's output, and the ``chance`` level."""
    found = measures.residual_predicts(tables["refinement"], settings.seed)
    return controls.with_chance(found, tables["refinement"], "residual_top", "model_top")


def residual_predicts_headline(frame: pl.DataFrame, context: FigureContext) -> str:
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


DRAWINGS = {
    "figure4": rates(agreement, agreement_headline, "agreement rate", "values", "value and trigger", whole=False),
    "figure8": rates(zero_agreement, zero_agreement_headline, ["examples with", "zero agreement"], "examples"),
    "figure9": rates(
        residual_predicts,
        residual_predicts_headline,
        ["residual predicts", "the output"],
        "examples",
        "residual and output",
    ),
}
