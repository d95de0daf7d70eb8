"""Figure 6: how often values agree, by the probability of their top token."""

import altair as alt
import polars as pl

from ff_memories.config import Settings
from ff_memories.figures import beside, controls, overlay
from ff_memories.figures.context import Drawing, FigureContext, Tables
from ff_memories.figures.links import linked
from ff_memories.figures.marks import INTERVAL, SEEN_THROUGH, Options, finish, share_axis, source, tooltips, x_title
from ff_memories.figures.other_types import other
from ff_memories.figures.phrases import percent
from ff_memories.figures.theme import BLACK, BLUE, INK, LIGHT_BLUE
from ff_memories.judge.evidence import of_types
from ff_memories.paper.values import measures


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 6: agreement rate per bin of the top probability, over the values of all layers.

    If the table has the other choice of ``values.types``, also ``mean_...`` and ``n_...`` in the same bins.
    """
    values = tables["values"]
    frame = measures.agreement_by_probability(values, context.bins, settings.seed)
    types = other(values, "agrees")
    if types is None or frame.is_empty():
        return frame
    width, place = frame["bin"][0] - frame["left"][0], pl.col("place")
    rates = _by_place(of_types(values, types), width).rename({"mean": f"mean_{types}", "n": f"n_{types}"})
    placed = frame.with_columns((pl.col("bin") / width).round().alias("place"))
    both = placed.join(rates, on="place", how="full", coalesce=True).filter(place <= context.bins).sort("place")
    return both.with_columns(
        pl.col("left").fill_null((place - 1) * width), pl.col("bin").fill_null(place * width), pl.col("n").fill_null(0)
    ).drop("place")


def of_a_model(frame: pl.DataFrame, tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Return another model's agreement rate in the bins of the run's frame that have values of that model."""
    width = frame["bin"][0] - frame["left"][0]
    placed = frame.select("bin", (pl.col("bin") / width).round().alias("place"))
    return placed.join(_by_place(tables["values"], width), on="place", maintain_order="left").select("bin", "mean")


def _by_place(values: pl.DataFrame, width: float) -> pl.DataFrame:
    """Return the agreement rate, ``mean``, and ``n`` in bins of a width, numbered from 1: ``place``."""
    place = (pl.col("top_probability").cast(pl.Float64) / width).ceil().clip(1)
    known = values.drop_nulls("agrees").with_columns(place.alias("place"))
    return known.group_by("place").agg(pl.col("agrees").mean().alias("mean"), pl.len().alias("n"))


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 6: a bar for each bin with its n above, and ticks at the right edges."""
    edges = frame["bin"].to_list() or [1.0]
    crowded = context.width / context.bins < 26
    first = pl.concat([frame["left"], context.paper_values["left"]]).to_frame().min().item() or 0.0
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
    drawn = frame.with_columns(
        (pl.col("left") + inset).alias("from"),
        (pl.col("bin") - inset).alias("to"),
        middle.alias("middle"),
        (middle - 4 * inset).alias("tick_from"),
        (middle + 4 * inset).alias("tick_to"),
        pl.max_horizontal("mean", "high").alias("upper"),
    )
    types = other(frame, "mean")
    tops = [context.paper_values["high"], *drawn.select("upper", pl.col(f"^(untrained_high|mean_{types})$"))]
    most = max((float(top) for values in tops for top in values.drop_nulls()), default=0) or 1
    y = share_axis("mean", "agreement rate", [0, 1.15 * most])
    base = alt.Chart(source(linked(drawn, context.figure)))
    count: Options = {"angle": 270, "align": "left", "baseline": "middle", "dx": 3} if crowded else {"dy": -5}
    marks = [
        base.mark_rect(color=LIGHT_BLUE, stroke=BLUE, strokeWidth=0.7, fillOpacity=SEEN_THROUGH).encode(
            x=x("from"), x2="to", y=y, y2=alt.datum(0), tooltip=tooltips(frame), href="href:N"
        ),
        base.mark_rule(color=BLACK, strokeWidth=0.8).encode(x=x("middle"), y="low:Q", y2="high:Q"),
        base.mark_text(fontSize=7, color=INK, **count).encode(
            x=x("middle"), y="upper:Q", text=alt.Text("n:Q", format=",")
        ),
    ]
    notes = ["above each bar: n, its number of values", f"lines: {INTERVAL}; ticks: right edges of bins"]
    marks += beside.across(drawn, "mean", x("tick_from"))
    theirs = overlay.by_probability(context, x("from"))
    notes += [*controls.untrained(frame), *beside.note(frame, "mean")]
    marks = [*theirs.behind, *marks, *controls.across(drawn, x("from")), *theirs.above]
    return finish(marks, context, frame, notes, headline)


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 6: whether values above the lowest probability bin agree more often, and in how many bins."""
    known = frame.drop_nulls("mean").sort("bin")
    lowest, others = known.row(0, named=True), known[1:]
    if others.is_empty():
        return f"Values agree in {percent(lowest['mean'])} of cases"
    above = float((others["mean"] * others["n"]).sum()) / int(others["n"].sum())
    said = "more often" if above > lowest["mean"] else "no more often"
    higher = others.filter(pl.col("mean") > lowest["mean"]).height
    bins = f", but in {higher} of {others.height} bins" if said == "more often" and higher < others.height else ""
    return (
        f"Values with a top probability above {lowest['bin']:.2g} agree {said}{bins}: "
        f"{percent(above)}, against {percent(lowest['mean'])} for the rest"
    )


DRAWINGS = {"figure6": Drawing(data, chart, headline, of_a_model)}
