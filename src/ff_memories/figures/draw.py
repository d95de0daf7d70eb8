"""For every figure, make the frame to draw (from tables, with ``measures``) and its chart."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import altair as alt
import polars as pl

from ff_memories.base.annotators import marks, preferred
from ff_memories.base.errors import UserError
from ff_memories.claims import measures
from ff_memories.claims.evidence import of_types
from ff_memories.config import Settings
from ff_memories.figures import beside, controls, overlay, paper, projection_seeds, sensitivity
from ff_memories.figures.context import FigureContext
from ff_memories.figures.links import linked
from ff_memories.figures.marks import (
    INTERVAL,
    SEEN_THROUGH,
    Options,
    bars,
    boxes,
    counted,
    finish,
    layer_axis,
    share_axis,
    source,
    stacks,
    tag,
    tooltips,
    x_title,
)
from ff_memories.figures.other_types import other
from ff_memories.figures.theme import BLACK, BLUE, GREEN, INK, LIGHT_BLUE, LIGHT_GREY, ORANGE

Tables = dict[str, pl.DataFrame]

LABEL_NAMES = {"shallow": "shallow", "both": "shallow + semantic", "semantic": "semantic", "none": "not covered"}
KIND_NAMES = dict(
    zip(measures.KINDS, ["residual", "agreement (both)", "composition (neither)", "ffn (feed-forward)"], strict=True)
)
LABEL_COLOURS = [BLUE, GREEN, ORANGE, LIGHT_GREY]
KIND_COLOURS = [BLUE, GREEN, ORANGE, BLACK]
MUTATION_COLOURS = dict(zip(measures.MUTATIONS, [BLUE, ORANGE, BLACK], strict=True))  # as in the paper, for print
EDGES = f"lines: {INTERVAL}s of the bottom and top segments"
SHARE = "_share"  # suffix of ranks as shares of the vocabulary
BULK = 0.05  # how far keys near zero may move a mean before Figure 3's axis ignores it
RANDOM_KEYS = 0.5  # without bias, a key from a symmetric distribution is active for half of all inputs


def _stacked(frame: pl.DataFrame, by: str, order: tuple[str, ...]) -> pl.DataFrame:
    """Return shares with the start and end of their segments, stacked from below in ``order``."""
    rank = {name: place for place, name in enumerate(order)}
    frame = frame.rename({by: "series"}).with_columns(
        pl.col("series").cast(pl.String).replace_strict(rank, return_dtype=pl.Int64).alias("place")
    )
    end = pl.col("mean").cum_sum().over("layer").clip(0, 1)
    frame = frame.sort("layer", "place").with_columns(end.alias("end"))
    return frame.with_columns((pl.col("end") - pl.col("mean")).clip(0, 1).alias("start")).select(
        "layer", "series", "start", "end", "mean", "low", "high", "n"
    )


def pattern_data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 2: share of trigger examples per layer and label, with the names of the ``annotators``.

    Uses people's labels if there are any, and the automatic proxy's otherwise.
    """
    labels = preferred(tables["pattern_labels"])
    annotators = ", ".join(labels["annotator"].unique().sort())
    frame = _stacked(measures.pattern_shares(labels, settings.seed), "label", measures.LABELS)
    return frame.with_columns(pl.lit(annotators, dtype=pl.String).alias("annotators"))


def pattern_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 2: stacked bars."""
    who = marks(frame["annotators"][0].split(", ")) if frame.height else []
    whose = f"labels: {', '.join(who).lower() or 'people'}"
    notes = [counted(frame, context, "trigger examples"), f"{EDGES}, over keys"]
    theirs = overlay.by_layer(context, covered=True)
    shown = stacks(frame, context, "trigger examples", LABEL_NAMES, LABEL_COLOURS)
    said = tag(whose) if frame.height else []
    return finish(theirs.behind + shown + theirs.above + said, context, frame, notes)


def mutation_data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 3: mean relative change of the coefficient per layer and removed token, over keys."""
    near_zero = measures.NEAR_ZERO[settings.precision]
    frame = measures.mutation_changes(tables["mutations"], settings.mutations.mean, settings.seed, near_zero)
    return frame.with_columns(pl.col("mutation").cast(pl.String))


def beyond_the_bulk(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows whose mean keys near zero move by more than ``BULK``."""
    return frame.filter((pl.col("near_zero") > 0) & ((pl.col("mean") - pl.col("others")).abs() > BULK))


def bulk_axis(frame: pl.DataFrame, beyond: pl.DataFrame) -> list[float]:
    """Return the axis limits that fit all other rows with their intervals, and all medians."""
    rest = frame.join(beyond, on=["layer", "mutation"], how="anti")
    shown = [0.0, *rest["low"].to_list(), *rest["high"].to_list(), *frame["median"].to_list()]
    room = 0.05 * (max(shown) - min(shown))
    return [min(shown) - room, max(shown) + room]


def off_axis(beyond: pl.DataFrame) -> list[str]:
    """Return a note that lists the means beyond the axis and says why, if there are any."""
    if beyond.is_empty():
        return []
    layers = ", ".join(map(str, beyond["layer"].unique().sort()))
    most = max(beyond["mean"].to_list(), key=abs)
    return [f"off the axis: means in layers {layers} (up to {100 * most:+,.0f}\u00a0%), due to keys near zero"]


def mutation_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 3: a line for each removed token, distinguished by colour, lightness, dash and shape."""
    names = list(measures.MUTATIONS)
    colours = alt.Scale(domain=names, range=list(MUTATION_COLOURS.values()))
    colour = alt.Color("mutation:N", title=None, scale=colours)
    stroke = alt.Stroke("mutation:N", legend=None, scale=colours)
    shapes = alt.Scale(domain=names, range=["square", "circle", "triangle-up"])
    shape = alt.Shape("mutation:N", title=None, scale=shapes)
    dash = alt.StrokeDash("mutation:N", legend=None, scale=alt.Scale(domain=names, range=[[4, 2], [1, 0], [1.5, 1.5]]))
    beyond = beyond_the_bulk(frame)
    y = share_axis("mean", ["change in", "memory coefficient"], None if beyond.is_empty() else bulk_axis(frame, beyond))
    if frame.is_empty():
        y = share_axis("mean", ["change in", "memory coefficient"], [-1, 0])
    base = alt.Chart(source(linked(frame, context.figure))).encode(x=layer_axis(context))
    lines = [
        base.mark_line(strokeWidth=1.2, clip=True).encode(y=y, stroke=stroke, strokeDash=dash),
        base.mark_rule(strokeWidth=0.8, clip=True).encode(y="low:Q", y2="high:Q", stroke=stroke),
        base.mark_point(shape="stroke", size=30, strokeWidth=0.9, opacity=1, clip=True).encode(
            y="median:Q", stroke=stroke
        ),
        base.mark_point(filled=True, size=18, opacity=1, clip=True).encode(
            y="mean:Q", color=colour, shape=shape, tooltip=tooltips(frame), href="href:N"
        ),
    ]
    notes = [counted(frame, context, "keys"), f"bars: {INTERVAL} over keys", "ticks: medians", *off_axis(beyond)]
    theirs = overlay.by_layer(context, MUTATION_COLOURS)
    return finish(theirs.behind + lines + theirs.above, context, frame, notes)


def _with_chance(rates: pl.DataFrame, cases: pl.DataFrame, prediction: str, target: str) -> pl.DataFrame:
    chances = measures.chance_agreement(cases, prediction, target)
    return rates.join(chances, on="layer", how="left", maintain_order="left")


def agreement_data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 4: agreement rate per layer, and by ``chance``, with values paired with other keys' triggers."""
    rates = measures.agreement(tables["values"], settings.seed)
    rates = _with_chance(rates, tables["values"].drop_nulls("agrees"), "top_token", "next_token")
    rates = controls.with_untrained(rates, tables["control"], "agreement")
    return beside.with_other(
        rates, tables["values"], "agrees", "mean", lambda values: measures.agreement(values, settings.seed)
    )


def agreement_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 4: bars with intervals."""
    notes = [
        counted(frame, context, "values"),
        f"lines: {INTERVAL}",
        controls.untrained(frame),
        "dotted: chance (random pairs of value and trigger)",
    ]
    y = share_axis("mean", "agreement rate", [0, 1] if frame.is_empty() else None)
    return _rates(frame, context, y, notes)


def _rates(frame: pl.DataFrame, context: FigureContext, y: alt.Y, notes: list[str]) -> alt.LayerChart:
    """Return bars by layer, in front of the paper's bands and the chance lines."""
    theirs = overlay.by_layer(context)
    marks = [
        *theirs.behind,
        *controls.by_layer(frame, context),
        *bars(frame, context, y),
        *beside.by_layer(frame, "mean", context),
        *theirs.above,
    ]
    return finish(marks, context, frame, notes + beside.note(frame, "mean"))


def rank_data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 5: quartiles of the next token's rank per layer, also as vocabulary shares if the size is known."""
    values = tables["values"]
    frame = beside.with_other(
        measures.next_token_ranks(values), values, "next_token_rank", "median", measures.next_token_ranks
    )
    if not context.vocab:
        return frame
    ranks = [name for name in frame.columns if name not in ("layer", "n")]
    return frame.with_columns((pl.col(name) / context.vocab).alias(f"{name}{SHARE}") for name in ranks)


def rank_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
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
    )
    notes = [counted(frame, context, "values"), _box_note(f", axis cut at rank {limit:,}" if limit else "")]
    if context.vocab:
        notes.append("rank 0 is the top; random tokens have a median of 50\u00a0%")
    theirs = overlay.by_layer(context, scale=1 / paper.vocabulary() if context.vocab else 1)
    marks = theirs.behind + boxes(drawn, context, y) + beside.by_layer(drawn, "median", context) + theirs.above
    return finish(marks, context, frame, notes + beside.note(frame, "median"))


def probability_data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 6: agreement rate per bin of the top probability, over the values of all layers.

    If the table has the other choice of ``values.types``, also ``mean_...`` and ``n_...`` in the same bins.
    """
    values = tables["values"]
    frame = measures.agreement_by_probability(values, context.bins, settings.seed)
    types = other(values, "agrees")
    if types is None or frame.is_empty():
        return frame
    width, place = frame["bin"][0] - frame["left"][0], pl.col("place")
    edge = pl.col("top_probability").cast(pl.Float64) / width
    known = of_types(values, types).drop_nulls("agrees").with_columns(edge.ceil().clip(1).alias("place"))
    rates = known.group_by("place").agg(pl.col("agrees").mean().alias(f"mean_{types}"), pl.len().alias(f"n_{types}"))
    placed = frame.with_columns((pl.col("bin") / width).round().alias("place"))
    both = placed.join(rates, on="place", how="full", coalesce=True).filter(place <= context.bins).sort("place")
    return both.with_columns(
        pl.col("left").fill_null((place - 1) * width), pl.col("bin").fill_null(place * width), pl.col("n").fill_null(0)
    ).drop("place")


def probability_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 6: a bar for each bin with its n above, and ticks at the right edges."""
    edges = frame["bin"].to_list() or [1.0]
    crowded = context.width / context.bins < 22
    first = pl.concat([frame["left"], context.paper_values["left"]]).to_frame().min().item() or 0.0
    limits = alt.Scale(domain=[first, edges[-1]], nice=False)
    ticks = alt.Axis(
        values=edges,
        format=".1e",
        labelFontSize=6,
        labelOverlap=False,
        labelFlush=False,
        labelAngle=-90 if crowded else 0,
    )

    def x(field: str) -> alt.X:  # for every chart layer: one without an explicit axis would thin its ticks
        return alt.X(f"{field}:Q", title=x_title(context, "top prediction probability"), scale=limits, axis=ticks)

    inset = (edges[-1] - first) / context.bins * 0.06
    middle = (pl.col("left") + pl.col("bin")) / 2
    drawn = frame.with_columns(
        (pl.col("left") + inset).alias("from"),
        (pl.col("bin") - inset).alias("to"),
        middle.alias("middle"),
        (middle - 4 * inset).alias("tick_from"),
        (middle + 4 * inset).alias("tick_to"),
        pl.max_horizontal("mean", "high").alias("upper"),
    )
    types = other(frame, "mean")
    tops = [drawn["upper"], context.paper_values["high"], *([frame[f"mean_{types}"]] if types else [])]
    most = max((float(top) for values in tops for top in values.drop_nulls()), default=0) or 1
    y = share_axis("mean", "agreement rate", [0, 1.15 * most])
    base = alt.Chart(source(linked(drawn, context.figure)))
    count: Options = {"angle": 270, "align": "left", "baseline": "middle", "dx": 3} if crowded else {"dy": -5}
    marks = [
        base.mark_rect(color=LIGHT_BLUE, stroke=BLUE, strokeWidth=0.7, fillOpacity=SEEN_THROUGH).encode(
            x=x("from"), x2="to", y=y, y2=alt.datum(0), tooltip=tooltips(frame), href="href:N"
        ),
        base.mark_rule(color=BLACK, strokeWidth=0.8).encode(x=x("middle"), y="low:Q", y2="high:Q"),
        base.mark_text(fontSize=6, color=INK, **count).encode(
            x=x("middle"), y="upper:Q", text=alt.Text("n:Q", format=",")
        ),
    ]
    notes = ["above each bar: n, its number of values", f"lines: {INTERVAL}; ticks: right edges of bins"]
    marks += beside.across(drawn, "mean", x("tick_from"))
    theirs = overlay.by_probability(context, x("from"))
    return finish(theirs.behind + marks + theirs.above, context, frame, notes + beside.note(frame, "mean"))


def active_data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 7: quartiles of the share of active memories per layer; of effective ones if no memory is inactive."""
    if not context.active:
        return measures.effective_memories(tables["composition"])
    return controls.with_untrained(
        measures.active_memories(tables["composition"], context.keys), tables["control"], "active"
    )


def active_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 7: boxes."""
    if not context.active:
        said = ["effective: as many equal ones would add as much", *([] if frame.is_empty() else [_box_note()])]
        notes = [counted(frame, context, "examples"), *said]
        return finish(boxes(frame, context, alt.Y("low:Q", title="effective memories")), context, frame, notes)
    notes = [
        counted(frame, context, "examples") + f", {context.keys:,} memories",
        _box_note(),
        f"dotted: random keys; {controls.untrained(frame)}",
    ]
    theirs = overlay.by_layer(context)
    marks = [
        *theirs.behind,
        *controls.level(RANDOM_KEYS),
        *controls.by_layer(frame, context),
        *boxes(frame, context, share_axis("low", "active memories", [0, 1])),
        *theirs.above,
    ]
    return finish(marks, context, frame, notes)


def zero_data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 8: share of examples with zero agreement per layer."""
    rates = measures.zero_agreement(tables["composition"], settings.seed)
    rates = controls.with_untrained(rates, tables["control"], "zero_agreement")
    return beside.with_other(
        rates, tables["composition"], "agreeing_memories", "mean",
        lambda composition: measures.zero_agreement(composition, settings.seed),
    )  # fmt: skip


def zero_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 8: bars with intervals."""
    notes = [counted(frame, context, "examples"), f"lines: {INTERVAL}", controls.untrained(frame)]
    return _rates(frame, context, share_axis("mean", ["examples with", "zero agreement"], [0, 1]), notes)


def residual_data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 9: share of examples per layer whose residual predicts the model's output, and the ``chance`` level."""
    rates = measures.residual_predicts(tables["refinement"], settings.seed)
    rates = _with_chance(rates, tables["refinement"], "residual_top", "model_top")
    return controls.with_untrained(rates, tables["control"], "residual_predicts")


def residual_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 9: bars with intervals."""
    notes = [
        counted(frame, context, "examples"),
        f"lines: {INTERVAL}",
        controls.untrained(frame),
        "dotted: chance (random pairs of residual and output)",
    ]
    return _rates(frame, context, share_axis("mean", ["residual predicts", "the output"], [0, 1]), notes)


def confidence_data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 10: quartiles of the output token's probability under the residual per layer."""
    return measures.residual_probabilities(tables["refinement"])


def confidence_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 10: boxes."""
    y = alt.Y("low:Q", title="probability", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=6))
    notes = [counted(frame, context, "examples"), _box_note()]
    theirs = overlay.by_layer(context)
    return finish(theirs.behind + boxes(frame, context, y) + theirs.above, context, frame, notes)


def kind_data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 11: share of examples per layer and kind of prediction."""
    return _stacked(measures.refinement_kinds(tables["refinement"], settings.seed), "kind", measures.KINDS)


def kind_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 11: stacked bars."""
    notes = [counted(frame, context, "examples"), EDGES]
    theirs = overlay.by_layer(context, covered=True)
    shown = stacks(frame, context, "examples", KIND_NAMES, KIND_COLOURS)
    return finish(theirs.behind + shown + theirs.above, context, frame, notes)


def _box_note(more: str = "") -> str:
    return f"boxes: quartiles; whiskers: within 1.5 box lengths{more}"


class Pair(NamedTuple):
    """The two steps of a figure: tables to frame, and frame to chart."""

    data: Callable[[Tables, Settings, FigureContext], pl.DataFrame]
    chart: Callable[[pl.DataFrame, FigureContext], alt.LayerChart]


DRAW: dict[str, Pair] = {
    "figure2": Pair(pattern_data, pattern_chart),
    "figure3": Pair(mutation_data, mutation_chart),
    "figure4": Pair(agreement_data, agreement_chart),
    "figure5": Pair(rank_data, rank_chart),
    "figure6": Pair(probability_data, probability_chart),
    "figure7": Pair(active_data, active_chart),
    "figure8": Pair(zero_data, zero_chart),
    "figure9": Pair(residual_data, residual_chart),
    "figure10": Pair(confidence_data, confidence_chart),
    "figure11": Pair(kind_data, kind_chart),
    "sensitivity": Pair(sensitivity.data, sensitivity.chart),
    "projection_seeds": Pair(projection_seeds.data, projection_seeds.chart),
}


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Return the frame that the figure draws.

    Raises ``UserError`` if a table has layers that the run's model lacks.
    """
    for name, table in tables.items():
        if "layer" not in table.columns:
            continue
        others = table.filter(~pl.col("layer").is_between(1, context.layers))
        if others.height:
            raise UserError(
                f"table {name} has layer {max(others['layer'])}, but the model has layers 1 to {context.layers}",
                "the table belongs to another run; remove it and run snakemake again",
            )
    return DRAW[context.figure].data(tables, settings, context)


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Return the chart of a frame from ``data``. Without data, omit the paper's values: they never stand alone."""
    if frame.is_empty():
        context = replace(context, options=context.options.model_copy(update={"paper_values": False}))
    return DRAW[context.figure].chart(frame, context)
