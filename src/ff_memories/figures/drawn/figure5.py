"""Figure 5: the rank of the next token in the values' distributions, by layer."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.config import Settings
from ff_memories.figures.context import FigureContext, Tables
from ff_memories.figures.parts import beside, controls, overlay, paper
from ff_memories.figures.parts.marks import box_note, boxes, counted, finish
from ff_memories.figures.parts.phrases import first_and_last, percent
from ff_memories.figures.registry import Figure

FIGURE = Figure(
    section="4",
    place=2,
    caption="Rank of the token that follows a key's top trigger example in the value's distribution (0 is the top).",
    caption_last="Rank of the last token of a key's top trigger example in the value's distribution (0 is the top).",
    tables=("values",),
    untrained="median",
    sections=("values",),
    options=("rank_limit",),
    address="?layer={layer}&sort=rank",
    keys="?sort=rank",
    paper={
        "read off the figure": (
            {"series": "median", "named": "median", "layers": (1, 7), "range": (10000, 15000)},
            {"series": "median", "named": "median", "layers": (14, 16), "range": (0, 2000)},
        ),
    },
)
SHARE = "_share"  # suffix of ranks as shares of the vocabulary
SAME = 0.1  # relative: a median rank that is lower by less does not count as better


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 5: quartiles of the next token's rank per layer, also as vocabulary shares if the size is known."""
    values = tables["values"]
    frame = beside.with_other(
        measures.next_token_ranks(values), values, "next_token_rank", "median", measures.next_token_ranks
    )
    if not context.vocab:
        return frame
    ranks = [name for name in frame.columns if name not in ("layer", "n")]
    return frame.with_columns((pl.col(name) / context.vocab).alias(f"{name}{SHARE}") for name in ranks)


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 5: boxes, as shares of the vocabulary if its size is known. ``rank_limit``, a rank, cuts the axis."""
    limit, size = context.options.rank_limit, context.vocab or 1
    most = limit / size if limit else (1 if frame.is_empty() else None)
    scale = alt.Scale(domain=[0, most], nice=False) if most else alt.Scale(zero=True)
    title = [f"rank of the {context.target} token,", "share of the vocabulary"]
    y = alt.Y(
        "low:Q",
        title=title if context.vocab else title[0].rstrip(","),
        scale=scale,
        axis=alt.Axis(format="~%" if context.vocab else "~s", tickCount=6),
    )
    drawn = frame.with_columns(
        pl.col(name).alias(name.removesuffix(SHARE)) for name in frame.columns if name.endswith(SHARE)
    ).with_columns(pl.col("^(untrained.*|same_sentences)$") / size)
    notes = [counted(frame, context, "values"), box_note(f", axis cut at rank {limit:,}" if limit else "")]
    if context.vocab:
        notes.append("rank 0 is the top; random tokens have a median of 50\u00a0%")
    theirs = overlay.by_layer(context, scale=1 / paper.VOCABULARY if context.vocab else 1)
    ours = boxes(drawn, context, y) + controls.by_layer(drawn, context)
    marks = theirs.behind + ours + beside.by_layer(drawn, "median", context) + theirs.above
    notes += [*controls.untrained(frame), *beside.note(frame, "median")]
    return finish(marks, context, frame, notes, headline)


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
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
