"""Figures 4 to 6, and our own of the table `projection_seeds`: how values agree with triggers."""

import altair as alt
import polars as pl

from ff_memories.config import Settings
from ff_memories.figures import beside, controls, paper
from ff_memories.figures.boxes import BOXES, box_chart
from ff_memories.figures.context import Drawing, FigureContext, Tables
from ff_memories.figures.marks import (
    counted,
    layer_axis,
    source,
)
from ff_memories.figures.phrases import first_and_last, percent
from ff_memories.figures.rates import rates
from ff_memories.figures.theme import BLACK, ORANGE
from ff_memories.judge import measures as general_measures
from ff_memories.paper.values import figure6, measures

SHARE = "_share"  # suffix of ranks as shares of the vocabulary
SAME = 0.1  # relative: a median rank that is lower by less does not count as better


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


def ranks(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 5: quartiles of the next token's rank per layer, also as vocabulary shares if the size is known."""
    values = tables["values"]
    frame = beside.with_other(
        measures.next_token_ranks(values), values, "next_token_rank", "median", measures.next_token_ranks
    )
    if not context.vocab:
        return frame
    columns = [name for name in frame.columns if name not in ("layer", "n")]
    return frame.with_columns((pl.col(name) / context.vocab).alias(f"{name}{SHARE}") for name in columns)


def ranks_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 5: boxes, as shares of the vocabulary if its size is known. ``rank_limit``, a rank, cuts the axis."""
    limit, size = context.options.rank_limit, context.vocab or 1
    most = limit / size if limit else (1 if frame.is_empty() else None)
    title = [f"rank of the {context.target} token,", "share of the vocabulary"]
    y = alt.Y(
        "low:Q",
        title=title if context.vocab else title[0].rstrip(","),
        scale=alt.Scale(domain=[0, most], nice=False) if most else alt.Scale(zero=True),
        axis=alt.Axis(format="~%" if context.vocab else "~s", tickCount=6),
    )
    drawn = frame.with_columns(
        pl.col(name).alias(name.removesuffix(SHARE)) for name in frame.columns if name.endswith(SHARE)
    ).with_columns(pl.col("^(untrained.*|same_sentences)$") / size)
    notes = [counted(frame, context, "values"), BOXES + (f", axis cut at rank {limit:,}" if limit else "")]
    if context.vocab:
        notes.append("rank 0 is the top; random tokens have a median of 50\u00a0%")
    scale = 1 / paper.VOCABULARY if context.vocab else 1
    return box_chart(drawn, context, y, notes, lambda _, context: ranks_headline(frame, context), scale)


def ranks_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 5: whether the target token ranks better in upper layers."""
    ends = first_and_last(frame)
    rank = lambda row: percent(row["median"] / context.vocab) if context.vocab else format(row["median"], ",.0f")
    said = [f"{rank(row)} in layer\u00a0{row['layer']}" for row in ends]
    unit = " of the vocabulary" if context.vocab else ""
    said[0] = said[0].replace(" in layer", f"{unit} in layer", 1)
    where = f"median rank {', '.join(said)}"
    if len(ends) == 1:
        return f"For the {context.target} token, {where}"
    best = frame.sort("median", "layer").row(0, named=True)
    if best["median"] < (1 - SAME) * min(row["median"] for row in ends):
        return f"The {context.target} token ranks best in layer\u00a0{best['layer']}, {rank(best)}: {where}"
    higher = ends[-1]["median"] < (1 - SAME) * ends[0]["median"]
    return f"The {context.target} token ranks {'higher' if higher else 'no higher'} in upper layers: {where}"


def seeds(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Our own: quartiles over seeds of each layer's median rank, with the ``trained`` softmax's median."""
    table = tables["projection_seeds"].drop_nulls("median")
    trained = table.filter(pl.col("projection") == "adaptive").select("layer", trained="median")
    drawn = table.filter(pl.col("projection") == "random").select("layer", rank="median")
    return general_measures.boxes(drawn, "rank").join(trained, on="layer", how="left", maintain_order="left")


def seeds_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Our own: boxes, and a point for the trained softmax."""
    y = alt.Y("low:Q", title=["median rank of", "targets in the tails"], axis=alt.Axis(format="~s", tickCount=6))
    points = alt.Chart(source(frame)).mark_point(
        shape="diamond", filled=True, size=26, color=ORANGE, stroke=BLACK, strokeWidth=0.5, opacity=1
    )
    notes = [counted(frame, context, "seeds"), "boxes: random projections; diamonds: the trained softmax"]
    above = [points.encode(x=layer_axis(context), y="trained:Q")]
    return box_chart(frame, context, y, notes, seeds_headline, above=above)


def seeds_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Our own: in how many layers the trained median lies outside the random projections' whiskers."""
    known = frame.drop_nulls("trained")
    outside = known.filter(~pl.col("trained").is_between("low", "high")).height
    layers = f"{outside} of {known.height} layers"
    return f"The trained softmax's median lies outside the random projections' range in {layers}"


DRAWINGS = {
    "figure4": rates(agreement, agreement_headline, "agreement rate", "values", "value and trigger", whole=False),
    "figure5": Drawing(ranks, ranks_chart, ranks_headline),
    "projection_seeds": Drawing(seeds, seeds_chart, seeds_headline),
    **figure6.DRAWINGS,
}
