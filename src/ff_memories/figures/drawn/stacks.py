"""Figures 2 and 11: shares that add up to one, by layer, as stacked bars."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.claims.layers import between
from ff_memories.claims.register import register
from ff_memories.claims.statistics import average, by_layer
from ff_memories.config import Settings
from ff_memories.figures.context import Drawing, FigureContext, Headline, Tables
from ff_memories.figures.parts import controls, overlay
from ff_memories.figures.parts.links import linked
from ff_memories.figures.parts.marks import (
    HALO,
    INTERVAL,
    THIN,
    Options,
    counted,
    finish,
    layer_axis,
    legend_columns,
    length,
    share_axis,
    source,
    tooltips,
)
from ff_memories.figures.parts.phrases import HALF, extremes, percent
from ff_memories.figures.theme import KIND_COLOURS, LABEL_COLOURS
from ff_memories.tables.annotation import marks, preferred

EDGES = f"lines: {INTERVAL}s of the bottom and top segments"
LABEL_NAMES = {"shallow": "shallow", "both": "shallow + semantic", "semantic": "semantic", "none": "not covered"}
KIND_NAMES = dict(
    zip(measures.KINDS, ["residual", "agreement (both)", "composition (neither)", "ffn (feed-forward)"], strict=True)
)


def stacked(frame: pl.DataFrame, by: str, order: tuple[str, ...]) -> pl.DataFrame:
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


def segments(
    frame: pl.DataFrame, context: FigureContext, title: str, names: dict[str, str], colours: dict[str, str]
) -> list[alt.Chart]:
    """Return stacked shares per layer, with intervals for the bottom and the top segment.

    ``frame`` has ``layer``, ``series`` (a key of ``names``, which gives order and legend), ``start``, ``end``,
    ``mean``, ``low``, ``high``. These two segments start or end at a fixed place, so their intervals apply to an edge;
    they are drawn side by side. Intervals for all segments would overlap.
    """
    x = layer_axis(context)
    labels = list(names.values())
    named = linked(frame, context.figure).with_columns(pl.col("series").replace_strict(names, return_dtype=pl.String))
    fill = alt.Color(
        "series:N",
        title=None,
        scale=alt.Scale(domain=labels, range=[colours[name] for name in names]),
        legend=alt.Legend(columns=legend_columns(context, labels)),
    )
    bars = (
        alt.Chart(source(named))
        .mark_bar(stroke="white", strokeWidth=0.3)
        .encode(
            x=x, y=share_axis("start", title, [0, 1]), y2="end:Q", color=fill, tooltip=tooltips(frame), href="href:N"
        )
    )
    step = context.width / context.layers / 12
    lowest, uppermost = (named.filter(pl.col("series") == label) for label in (labels[0], labels[-1]))
    start, end = pl.col("start"), pl.col("end")
    ends = [
        (lowest.select("layer", low=start + pl.col("low"), high=start + pl.col("high")), -step),
        (uppermost.select("layer", low=end - pl.col("high"), high=end - pl.col("low")), step),
    ]
    return [bars] + [
        alt.Chart(source(part)).mark_rule(**look, xOffset=aside, clip=True).encode(x=x, y="low:Q", y2="high:Q")
        for part, aside in ends
        for look in (HALO | {"strokeWidth": 1.4}, THIN)
    ]


def tag(text: str) -> list[alt.Chart]:
    """Return a label in the plot's lower corner, inside the axes, where cropping cannot remove it."""
    ground: Options = {"x": {"expr": f"width - {length(text, 7) + 8}"}, "x2": {"expr": "width - 3"}, "cornerRadius": 2}
    height: Options = {"y": {"expr": "height - 14"}, "y2": {"expr": "height - 3"}, "color": "white", "opacity": 0.9}
    place: Options = {"x": {"expr": f"width - {length(text, 7) / 2 + 5.5}"}, "y": {"expr": "height - 8.5"}}
    nothing = alt.Chart(source([{}]))
    return [nothing.mark_rect(**ground, **height), nothing.mark_text(text=text, **place, baseline="middle")]


def stack_chart(
    frame: pl.DataFrame,
    context: FigureContext,
    unit: str,
    names: dict[str, str],
    colours: dict[str, str],
    edges: str,
    headline: Headline,
    label: str = "",
) -> alt.LayerChart:
    """Return stacked bars with the edges of untrained models' segments and the paper's values.

    Args:
        unit: what is counted.
        names: of the segments in the legend, from below.
        edges: the note on the intervals.
        label: what stands inside the axes.
    """
    theirs = overlay.by_layer(context, covered=True)
    ours = [*segments(frame, context, unit, names, colours), *controls.edges(frame, context)]
    notes = [counted(frame, context, unit), edges, *controls.untrained(frame, own=False)]
    drawn = [*theirs.behind, *ours, *theirs.above, *(tag(label) if label else [])]
    return finish(drawn, context, frame, notes, headline)


def patterns(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 2: share of trigger examples per layer and label, with the names of the ``annotators``.

    Uses people's labels if there are any, and the automatic proxy's otherwise.
    """
    labels = preferred(tables["pattern_labels"])
    annotators = ", ".join(labels["annotator"].unique().sort())
    frame = stacked(measures.pattern_shares(labels, settings.seed), "label", measures.LABELS)
    return frame.with_columns(pl.lit(annotators, dtype=pl.String).alias("annotators"))


def patterns_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 2: stacked bars, which say whose labels they are."""
    who = marks(frame["annotators"][0].split(", ")) if frame.height else []
    whose = f"labels: {', '.join(who).lower() or 'people'}" if frame.height else ""
    given = "trigger examples", LABEL_NAMES, LABEL_COLOURS, f"{EDGES}, over keys"
    return stack_chart(frame, context, *given, patterns_headline, whose)


def patterns_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 2: how purely shallow and purely semantic shares change from lower to upper layers (K9)."""
    claim = next(claim for claim in register() if claim.check == "patterns.shallow_then_semantic")
    halves = [between(claim.parameters[part], context.layers) for part in ("lower", "upper")]
    shares = {kind: by_layer(frame.filter(pl.col("series") == kind), "mean") for kind in ("shallow", "semantic")}
    ends = {kind: [average(shares[kind], layers) for layers in halves] for kind in shares}
    if any(end is None for pair in ends.values() for end in pair):
        covered = frame.filter(pl.col("series") != "none").group_by("layer").agg(pl.col("mean").sum().clip(0, 1))
        return f"Share of triggers with a pattern: {extremes(covered, 'mean')}"
    return "From lower to upper layers, " + ", ".join(
        f"{what} {_goes(*(percent(end) for end in ends[kind]))}"  # type: ignore[arg-type]  # none is missing
        for kind, what in (("shallow", "shallow patterns"), ("semantic", "semantic ones"))
    )


def _goes(below: str, above: str) -> str:
    """Return how a share changes from lower to upper layers: ``fall from 61 % to 51 %``."""
    if below == above:
        return f"stay at {below}"
    number = lambda text: float(text.split("\u00a0")[0])
    return f"{'rise' if number(above) > number(below) else 'fall'} from {below} to {above}"


def kinds(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 11: share of examples per layer and kind of prediction."""
    return stacked(measures.refinement_kinds(tables["refinement"], settings.seed), "kind", measures.KINDS)


def kinds_chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 11: stacked bars."""
    return stack_chart(frame, context, "examples", KIND_NAMES, KIND_COLOURS, EDGES, kinds_headline)


def kinds_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 11: which prediction most outputs follow, over all layers."""
    says = {
        "residual": "the residual only",
        "agreement": "both residual and feed-forward",
        "composition": "neither residual nor feed-forward",
        "ffn": "the feed-forward only",
    }
    total = frame.group_by("series").agg(pl.col("mean").mean()).sort("mean", "series")
    top = total.row(-1, named=True)["series"]
    often = "Over all layers, most outputs follow"
    if total["mean"][-1] <= HALF:
        often = "The most frequent case: outputs follow"
    return f"{often} {says[top]}: {extremes(frame.filter(pl.col('series') == top), 'mean')}"


DRAWINGS = {
    "figure2": Drawing(patterns, patterns_chart, patterns_headline),
    "figure11": Drawing(kinds, kinds_chart, kinds_headline),
}
