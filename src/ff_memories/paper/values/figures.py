"""Figures 4 to 6: how values agree with triggers."""

import altair as alt
import polars as pl

from ff_memories.config import Settings
from ff_memories.figures import controls, marks, paper
from ff_memories.figures.charts import BOXES, box_chart, rates
from ff_memories.figures.context import Drawing, Drawn, FigureContext, Frames
from ff_memories.figures.theme import BLACK, BLUE, INK, LIGHT_BLUE
from ff_memories.judge.measures import MEAN, boxes, means
from ff_memories.paper.values import measures

SHARE = "_share"  # suffix of ranks as shares of the vocabulary


def agreement(tables: Frames, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 4: agreement rate per layer, and by ``chance``, with values paired with other keys' triggers."""
    values = tables["values"]
    rates_by_layer = measures.agreement(values, settings.seed)
    return controls.with_chance(rates_by_layer, values.drop_nulls("agrees"), "top_token", "next_token")


def agreement_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 4: the layer whose values agree most with their top triggers, beside its controls."""
    peak = frame.sort("mean", "layer", descending=[True, False]).row(0, named=True)
    if not peak["mean"]:
        return f"No value predicts its top trigger's {context.target} token"
    text = f"At most {marks.percent(peak['mean'])} of a layer's values predict the {context.target} token"
    text += f", in layer\u00a0{peak['layer']}" if context.layers > 1 else ""
    beside = [
        f"{control}: {marks.percent(peak[name])}"
        for name, control in (("chance", "random pairs"), ("untrained", "random networks"))
        if peak.get(name) is not None
    ]
    return f"{text} ({', '.join(beside)})" if beside else text


def ranks(tables: Frames, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 5: quartiles of the next token's rank per layer, also as shares of the vocabulary."""
    frame = boxes(tables["values"], "next_token_rank")
    columns = [name for name in frame.columns if name not in ("layer", "n")]
    return frame.with_columns((pl.col(name) / context.vocab).alias(f"{name}{SHARE}") for name in columns)


def ranks_chart(frame: pl.DataFrame, context: FigureContext) -> Drawn:
    """Figure 5: boxes, as shares of the vocabulary. ``rank_limit``, a rank, cuts the axis."""
    limit = context.options.rank_limit
    most = limit / context.vocab if limit else (1 if frame.is_empty() else None)
    y = alt.Y(
        "low:Q",
        title=[f"rank of the {context.target} token,", "share of the vocabulary"],
        scale=alt.Scale(domain=[0, most], nice=False) if most else alt.Scale(zero=True),
        axis=alt.Axis(format="~%", tickCount=6),
    )
    shown = frame.with_columns(
        pl.col(name).alias(name.removesuffix(SHARE)) for name in frame.columns if name.endswith(SHARE)
    ).with_columns(pl.col("^(untrained.*|same_sentences)$") / context.vocab)
    notes = [marks.counted(frame, context, "values"), BOXES + (f", axis cut at rank {limit:,}" if limit else "")]
    notes.append("rank 0 is the top; random tokens have a median of 50\u00a0%")
    return box_chart(shown, context, y, notes, 1 / paper.VOCABULARY)


def ranks_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 5: the layers in which the target token ranks best and worst."""
    medians = marks.extremes(frame, "median", lambda rank: marks.percent(rank / context.vocab))
    return f"Median rank of the {context.target} token, of the vocabulary: {medians}"


def by_probability(tables: Frames, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 6: agreement rate per ``bin`` of the top probability (its right edge), over the values of all layers.

    The bins have equal width on [0, max]; ``left`` is a bin's left edge. Empty bins are left out.
    """
    compared = tables["values"].drop_nulls("agrees")
    if compared.is_empty():
        return pl.DataFrame(schema={"left": pl.Float64(), "bin": pl.Float64(), **MEAN})
    width = float(compared["top_probability"].to_numpy().max()) / context.bins
    index = (pl.col("top_probability").cast(pl.Float64) / width).ceil().clip(1, context.bins)
    out = means(compared.with_columns(bin=index * width), ["bin"], "agrees", settings.seed)
    return out.select((pl.col("bin") - width).alias("left"), pl.all())


def by_probability_of_a_model(
    frame: pl.DataFrame, tables: Frames, settings: Settings, context: FigureContext
) -> pl.DataFrame:
    """Return another model's agreement rate in the bins of the run's frame that have values of that model."""
    width = frame["bin"][0] - frame["left"][0]
    placed = frame.select("bin", (pl.col("bin") / width).round().alias("number"))
    number = (pl.col("top_probability").cast(pl.Float64) / width).ceil().clip(1).alias("number")
    rates_by_bin = tables["values"].drop_nulls("agrees").group_by(number).agg(pl.col("agrees").mean().alias("mean"))
    return placed.join(rates_by_bin, on="number", maintain_order="left").select("bin", "mean")


def by_probability_chart(frame: pl.DataFrame, context: FigureContext) -> Drawn:
    """Figure 6: a bar for each bin with its n above, and ticks at the right edges."""
    edges = frame["bin"].to_list() or [1.0]
    theirs = paper.values(context)
    crowded = context.width / context.bins < 26
    turned = -90 if crowded else 0
    first = pl.concat([frame["left"], theirs["left"]]).to_frame().min().item() or 0.0
    limits = alt.Scale(domain=[first, edges[-1]], nice=False)
    ticks = alt.Axis(
        values=edges, format=".1e", labelFontSize=7, labelOverlap=False, labelFlush=False, labelAngle=turned
    )

    def x(field: str) -> alt.X:  # for every chart layer: one without an explicit axis would thin its ticks
        return alt.X(f"{field}:Q", title=marks.x_title(context, "top prediction probability"), scale=limits, axis=ticks)

    inset = (edges[-1] - first) / context.bins * 0.06
    middle = (pl.col("left") + pl.col("bin")) / 2
    bars = frame.with_columns(
        (pl.col("left") + inset).alias("from"),
        (pl.col("bin") - inset).alias("to"),
        middle.alias("middle"),
        pl.max_horizontal("mean", "high").alias("upper"),
    )
    tops = [theirs["high"], *bars.select("upper", pl.col("^untrained_high$"))]
    most = max((float(top) for values in tops for top in values.drop_nulls()), default=0) or 1
    y = marks.share_axis("mean", "agreement rate", [0, 1.15 * most])
    base = alt.Chart(marks.source(marks.linked(bars, context.figure)))
    angle: marks.Options = {"angle": 270, "align": "left", "baseline": "middle", "dx": 3} if crowded else {"dy": -5}
    layers = [
        base.mark_rect(color=LIGHT_BLUE, stroke=BLUE, strokeWidth=0.7, fillOpacity=marks.SEEN_THROUGH).encode(
            x=x("from"), x2="to", y=y, y2=alt.datum(0), tooltip=marks.tooltips(frame), href="href:N"
        ),
        base.mark_rule(color=BLACK, strokeWidth=0.8).encode(x=x("middle"), y="low:Q", y2="high:Q"),
        base.mark_text(fontSize=7, color=INK, **angle).encode(
            x=x("middle"), y="upper:Q", text=alt.Text("n:Q", format=",")
        ),
    ]
    notes = ["above each bar: n, its number of values", f"lines: {marks.INTERVAL}; ticks: right edges of bins"]
    notes += controls.untrained(frame)
    overlay = paper.overlay(context, theirs.rename({"left": "from", "right": "to"}), x("from"))
    layers = [*overlay.behind, *layers, *controls.across(bars, x("from")), *overlay.above]
    return Drawn(layers, notes)


def by_probability_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 6: how often values above the lowest probability bin agree, and how often those in it."""
    filled = frame.drop_nulls("mean").sort("bin")
    lowest, others = filled.row(0, named=True), filled[1:]
    if others.is_empty():
        return f"Values agree in {marks.percent(lowest['mean'])} of cases"
    above = float((others["mean"] * others["n"]).sum()) / int(others["n"].sum())
    return (
        f"Values with a top probability above {lowest['bin']:.2g} agree in {marks.percent(above)} of cases, "
        f"the others in {marks.percent(lowest['mean'])}"
    )


DRAWINGS = {
    "figure4": rates(agreement, agreement_headline, "agreement rate", "values", "value and trigger", whole=False),
    "figure5": Drawing(ranks, ranks_chart, ranks_headline),
    "figure6": Drawing(by_probability, by_probability_chart, by_probability_headline, by_probability_of_a_model),
}
