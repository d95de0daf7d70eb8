"""Figures 4 to 6, and our own of the table `projection_seeds`: how values agree with triggers."""

from functools import partial

import altair as alt
import polars as pl

from ff_memories.config import Settings
from ff_memories.figures import controls, paper
from ff_memories.figures.charts import BOXES, box_chart, rates
from ff_memories.figures.context import Drawing, FigureContext, Tables
from ff_memories.figures.marks import (
    INTERVAL,
    SEEN_THROUGH,
    Options,
    counted,
    extremes,
    finish,
    layer_axis,
    linked,
    percent,
    share_axis,
    source,
    tooltips,
    x_title,
)
from ff_memories.figures.theme import BLACK, BLUE, INK, LIGHT_BLUE, ORANGE
from ff_memories.judge import measures as general_measures
from ff_memories.judge.evidence import of_types, other_types
from ff_memories.paper.values import measures

SHARE = "_share"  # suffix of ranks as shares of the vocabulary


def agreement(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 4: agreement rate per layer, and by ``chance``, with values paired with other keys' triggers."""
    values, measure = tables["values"], partial(measures.agreement, seed=settings.seed)
    rates_by_layer = controls.with_chance(measure(values), values.drop_nulls("agrees"), "top_token", "next_token")
    return controls.with_other_types(rates_by_layer, values, "agrees", "mean", measure)


def agreement_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 4: the layer whose values agree most with their top triggers, beside its controls."""
    peak = frame.sort("mean", "layer", descending=[True, False]).row(0, named=True)
    if not peak["mean"]:
        return f"No value predicts its top trigger's {context.target} token"
    text = f"At most {percent(peak['mean'])} of a layer's values predict the {context.target} token"
    text += f", in layer\u00a0{peak['layer']}" if context.layers > 1 else ""
    beside = [
        f"{control}: {percent(peak[name])}"
        for name, control in (("chance", "random pairs"), ("untrained", "random networks"))
        if peak.get(name) is not None
    ]
    return f"{text} ({', '.join(beside)})" if beside else text


def ranks(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 5: quartiles of the next token's rank per layer, also as vocabulary shares if the size is known."""
    values = tables["values"]
    frame = controls.with_other_types(
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
    shown = frame.with_columns(
        pl.col(name).alias(name.removesuffix(SHARE)) for name in frame.columns if name.endswith(SHARE)
    ).with_columns(pl.col("^(untrained.*|same_sentences)$") / size)
    notes = [counted(frame, context, "values"), BOXES + (f", axis cut at rank {limit:,}" if limit else "")]
    if context.vocab:
        notes.append("rank 0 is the top; random tokens have a median of 50\u00a0%")
    scale = 1 / paper.VOCABULARY if context.vocab else 1
    return box_chart(shown, context, y, notes, lambda _, context: ranks_headline(frame, context), scale)


def ranks_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 5: the layers in which the target token ranks best and worst."""
    rank = (lambda median: percent(median / context.vocab)) if context.vocab else (lambda median: f"{median:,.0f}")
    unit = ", of the vocabulary" if context.vocab else ""
    return f"Median rank of the {context.target} token{unit}: {extremes(frame, 'median', rank)}"


def by_probability(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 6: agreement rate per bin of the top probability, over the values of all layers.

    If the table has the other choice of ``values.types``, also ``mean_...`` and ``n_...`` in the same bins.
    """
    values = tables["values"]
    frame = measures.agreement_by_probability(values, context.bins, settings.seed)
    types = other_types(values, "agrees")
    if types is None or frame.is_empty():
        return frame
    width, number = frame["bin"][0] - frame["left"][0], pl.col("number")
    rates = _in_bins(of_types(values, types), width).rename({"mean": f"mean_{types}", "n": f"n_{types}"})
    placed = frame.with_columns((pl.col("bin") / width).round().alias("number"))
    both = placed.join(rates, on="number", how="full", coalesce=True).filter(number <= context.bins).sort("number")
    return both.with_columns(
        pl.col("left").fill_null((number - 1) * width),
        pl.col("bin").fill_null(number * width),
        pl.col("n").fill_null(0),
    ).drop("number")


def by_probability_of_a_model(
    frame: pl.DataFrame, tables: Tables, settings: Settings, context: FigureContext
) -> pl.DataFrame:
    """Return another model's agreement rate in the bins of the run's frame that have values of that model."""
    width = frame["bin"][0] - frame["left"][0]
    placed = frame.select("bin", (pl.col("bin") / width).round().alias("number"))
    return placed.join(_in_bins(tables["values"], width), on="number", maintain_order="left").select("bin", "mean")


def _in_bins(values: pl.DataFrame, width: float) -> pl.DataFrame:
    """Return the agreement rate, ``mean``, and ``n`` in bins of a width, numbered from 1: ``place``."""
    number = (pl.col("top_probability").cast(pl.Float64) / width).ceil().clip(1)
    compared = values.drop_nulls("agrees").with_columns(number.alias("number"))
    return compared.group_by("number").agg(pl.col("agrees").mean().alias("mean"), pl.len().alias("n"))


def by_probability_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 6: a bar for each bin with its n above, and ticks at the right edges."""
    edges = frame["bin"].to_list() or [1.0]
    theirs = paper.values(context)
    crowded = context.width / context.bins < 26
    first = pl.concat([frame["left"], theirs["left"]]).to_frame().min().item() or 0.0
    limits = alt.Scale(domain=[first, edges[-1]], nice=False)
    ticks = alt.Axis(
        values=edges,
        format=".1e",
        labelFontSize=7,
        labelOverlap=False,
        labelFlush=False,
        labelAngle=-90 if crowded else 0,
    )

    def x(field: str) -> alt.X:  # for every chart layer: one without an explicit axis would thin its ticks
        return alt.X(f"{field}:Q", title=x_title(context, "top prediction probability"), scale=limits, axis=ticks)

    inset = (edges[-1] - first) / context.bins * 0.06
    middle = (pl.col("left") + pl.col("bin")) / 2
    bars = frame.with_columns(
        (pl.col("left") + inset).alias("from"),
        (pl.col("bin") - inset).alias("to"),
        middle.alias("middle"),
        (middle - 4 * inset).alias("tick_from"),
        (middle + 4 * inset).alias("tick_to"),
        pl.max_horizontal("mean", "high").alias("upper"),
    )
    types = other_types(frame, "mean")
    tops = [theirs["high"], *bars.select("upper", pl.col(f"^(untrained_high|mean_{types})$"))]
    most = max((float(top) for values in tops for top in values.drop_nulls()), default=0) or 1
    y = share_axis("mean", "agreement rate", [0, 1.15 * most])
    base = alt.Chart(source(linked(bars, context.figure)))
    angle: Options = {"angle": 270, "align": "left", "baseline": "middle", "dx": 3} if crowded else {"dy": -5}
    marks = [
        base.mark_rect(color=LIGHT_BLUE, stroke=BLUE, strokeWidth=0.7, fillOpacity=SEEN_THROUGH).encode(
            x=x("from"), x2="to", y=y, y2=alt.datum(0), tooltip=tooltips(frame), href="href:N"
        ),
        base.mark_rule(color=BLACK, strokeWidth=0.8).encode(x=x("middle"), y="low:Q", y2="high:Q"),
        base.mark_text(fontSize=7, color=INK, **angle).encode(
            x=x("middle"), y="upper:Q", text=alt.Text("n:Q", format=",")
        ),
    ]
    notes = ["above each bar: n, its number of values", f"lines: {INTERVAL}; ticks: right edges of bins"]
    marks += controls.other_types_across(bars, "mean", x("tick_from"))
    overlay = paper.by_probability(context, x("from"))
    notes += [*controls.untrained(frame), *controls.other_types_note(frame, "mean")]
    marks = [*overlay.behind, *marks, *controls.across(bars, x("from")), *overlay.above]
    return finish(marks, context, frame, notes, by_probability_headline)


def by_probability_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 6: how often values above the lowest probability bin agree, and how often those in it."""
    filled = frame.drop_nulls("mean").sort("bin")
    lowest, others = filled.row(0, named=True), filled[1:]
    if others.is_empty():
        return f"Values agree in {percent(lowest['mean'])} of cases"
    above = float((others["mean"] * others["n"]).sum()) / int(others["n"].sum())
    return (
        f"Values with a top probability above {lowest['bin']:.2g} agree in {percent(above)} of cases, "
        f"the others in {percent(lowest['mean'])}"
    )


def seeds(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Our own: quartiles over seeds of each layer's median rank, with the ``trained`` softmax's median."""
    table = tables["projection_seeds"].drop_nulls("median")
    trained = table.filter(pl.col("projection") == "adaptive").select("layer", trained="median")
    random_medians = table.filter(pl.col("projection") == "random").select("layer", rank="median")
    return general_measures.boxes(random_medians, "rank").join(trained, on="layer", how="left", maintain_order="left")


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
    compared = frame.drop_nulls("trained")
    outside = compared.filter(~pl.col("trained").is_between("low", "high")).height
    layers = f"{outside} of {compared.height} layers"
    return f"The trained softmax's median lies outside the random projections' range in {layers}"


DRAWINGS = {
    "figure4": rates(agreement, agreement_headline, "agreement rate", "values", "value and trigger", whole=False),
    "figure5": Drawing(ranks, ranks_chart, ranks_headline),
    "figure6": Drawing(by_probability, by_probability_chart, by_probability_headline, by_probability_of_a_model),
    "projection_seeds": Drawing(seeds, seeds_chart, seeds_headline),
}
