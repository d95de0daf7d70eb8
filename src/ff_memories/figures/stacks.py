"""Figures 2 and 11: shares that add up to one, by layer, as stacked bars."""

import altair as alt
import polars as pl

from ff_memories.figures import controls, overlay
from ff_memories.figures.context import FigureContext, Headline
from ff_memories.figures.links import linked
from ff_memories.figures.marks import (
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

EDGES = f"lines: {INTERVAL}s of the bottom and top segments"


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
