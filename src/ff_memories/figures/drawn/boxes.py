"""Figures 5, 7 and 10, and our own of the table `projection_seeds`: quartiles of something, by layer, as boxes."""

from collections.abc import Sequence

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.config import Settings
from ff_memories.figures.context import Drawing, FigureContext, Headline, Tables
from ff_memories.figures.parts import beside, controls, overlay, paper
from ff_memories.figures.parts.links import linked
from ff_memories.figures.parts.marks import (
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
from ff_memories.figures.theme import BLACK, BLUE, INK, LIGHT_BLUE, ORANGE

BOXES = "boxes: quartiles; whiskers: within 1.5 box lengths"
SHARE = "_share"  # suffix of ranks as shares of the vocabulary
SAME = 0.1  # relative: a median rank that is lower by less does not count as better
RANDOM_KEYS = 0.5  # without bias, a key from a symmetric distribution is active for half of all inputs


def boxes(frame: pl.DataFrame, context: FigureContext, y: alt.Y) -> list[alt.Chart]:
    """Return one box per layer from its quartiles: ``layer``, ``low``, ``q1``, ``median``, ``q3``, ``high``.

    ``y`` is the axis of ``low``. Marks beyond the axis's domain are clipped.
    """
    base = alt.Chart(source(linked(frame, context.figure))).encode(x=layer_axis(context))
    return [
        base.mark_rule(color=INK, strokeWidth=thin(context), clip=True).encode(y=y, y2="high:Q"),
        base.mark_bar(
            color=LIGHT_BLUE, stroke=BLUE, strokeWidth=thin(context), fillOpacity=SEEN_THROUGH, clip=True
        ).encode(y="q1:Q", y2="q3:Q", tooltip=tooltips(frame), href="href:N"),
        base.mark_tick(color=BLACK, thickness=1.4, width={"band": 1}, clip=True).encode(y="median:Q"),
    ]


def box_chart(
    frame: pl.DataFrame,
    context: FigureContext,
    y: alt.Y,
    notes: list[str],
    headline: Headline,
    scale: float | None = 1,
    behind: Sequence[alt.Chart] = (),
    above: Sequence[alt.Chart] = (),
) -> alt.LayerChart:
    """Return boxes between the paper's bands and the lines of untrained models.

    Args:
        scale: a factor that converts the paper's values to the axis's unit; ``None``: without them.
        behind: further marks below the boxes.
        above: further marks over all others.
    """
    theirs = overlay.Overlay([], []) if scale is None else overlay.by_layer(context, scale=scale)
    marks = [
        *theirs.behind,
        *behind,
        *boxes(frame, context, y),
        *controls.by_layer(frame, context),
        *beside.by_layer(frame, "median", context),
        *theirs.above,
        *above,
    ]
    notes = [*notes, *controls.untrained(frame), *beside.note(frame, "median")]
    return finish(marks, context, frame, notes, headline)


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


def active(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 7: quartiles of the share of active memories per layer; of effective ones if no memory is inactive."""
    if not context.active:
        return measures.effective_memories(tables["composition"])
    return measures.active_memories(tables["composition"], context.keys)


def active_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 7: boxes, beside the level of random keys."""
    n = counted(frame, context, "examples")
    if not context.active:
        notes = [n, "effective: as many equal ones would add as much", *([] if frame.is_empty() else [BOXES])]
        return box_chart(frame, context, alt.Y("low:Q", title="effective memories"), notes, active_headline, None)
    notes = [f"{n}, {context.keys:,} memories", BOXES, "dotted: random keys"]
    y = share_axis("low", "active memories", [0, 1])
    return box_chart(frame, context, y, notes, active_headline, behind=controls.level(RANDOM_KEYS))


def active_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 7: what share of memories is active."""
    if not context.active:
        median = extremes(frame, "median", lambda value: f"{value:,.3g}")
        return f"The effective number of memories: median {median}"
    medians = frame["median"].to_numpy()
    many = "Most memories are" if medians.min() > HALF else "In some layers, half or more of the memories are"
    who = "A minority of memories is" if medians.max() < HALF else many
    return f"{who} active: median {extremes(frame, 'median')}"


def probabilities(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 10: quartiles of the output token's probability under the residual per layer."""
    return measures.residual_probabilities(tables["refinement"])


def probabilities_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 10: boxes."""
    y = alt.Y("low:Q", title="probability", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=6))
    return box_chart(frame, context, y, [counted(frame, context, "examples"), BOXES], probabilities_headline)


def probabilities_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 10: whether the residual's probability of the output grows."""
    ends = first_and_last(frame)
    said = "grows" if ends[-1]["median"] > ends[0]["median"] else "does not grow"
    if len(ends) == 1:
        return f"The residual's median probability of the output: {both_ends(frame, 'median')}"
    return f"The residual's probability of the output {said}: median {both_ends(frame, 'median')}"


def seeds(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Our own: quartiles over seeds of each layer's median rank, with the ``trained`` softmax's median."""
    table = tables["projection_seeds"].drop_nulls("median")
    trained = table.filter(pl.col("projection") == "adaptive").select("layer", trained="median")
    drawn = table.filter(pl.col("projection") == "random").select("layer", rank="median")
    return measures.boxes(drawn, "rank").join(trained, on="layer", how="left", maintain_order="left")


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
    "figure5": Drawing(ranks, ranks_chart, ranks_headline),
    "figure7": Drawing(active, active_chart, active_headline),
    "figure10": Drawing(probabilities, probabilities_chart, probabilities_headline),
    "projection_seeds": Drawing(seeds, seeds_chart, seeds_headline),
}
