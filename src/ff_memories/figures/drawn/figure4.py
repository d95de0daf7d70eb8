"""Figure 4: how often values agree with their keys' top triggers, by layer."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.config import Settings
from ff_memories.figures.context import FigureContext, Tables
from ff_memories.figures.parts import beside, controls
from ff_memories.figures.parts.marks import share_axis
from ff_memories.figures.parts.phrases import percent
from ff_memories.figures.parts.rates import chance_notes, rate_bars
from ff_memories.figures.registry import Figure

FIGURE = Figure(
    section="4",
    place=1,
    caption="How often a value's most probable token is the token that follows its key's top trigger example.",
    caption_last="How often a value's most probable token is the last token of its key's top trigger example.",
    tables=("values",),
    untrained="mean",
    sections=("values",),
    address="?layer={layer}&agrees=1",
    keys="?agrees=1",
    paper={
        "read off the figure": ({"series": "agreement", "layers": (1, 10), "range": (0.0, 0.005)},),
        "stated": ({"series": "agreement", "layers": (16, 16), "value": 0.035},),
    },
)


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 4: agreement rate per layer, and by ``chance``, with values paired with other keys' triggers.

    ``guess`` is the rate of the one token that most of a layer's triggers are followed by.
    """
    cases = tables["values"].drop_nulls("agrees")
    guess = cases.group_by("layer").agg(guess=pl.col("next_token").unique_counts().max() / pl.len())
    rates = measures.agreement(tables["values"], settings.seed).join(
        guess, on="layer", how="left", maintain_order="left"
    )
    rates = controls.with_chance(rates, cases, "top_token", "next_token")
    return beside.with_other(
        rates, tables["values"], "agrees", "mean", lambda values: measures.agreement(values, settings.seed)
    )


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 4: bars with intervals."""
    notes = chance_notes(frame, context, "values", "value and trigger")
    y = share_axis("mean", "agreement rate", [0, 1] if frame.is_empty() else None)
    return rate_bars(frame, context, y, notes, headline)


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
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
