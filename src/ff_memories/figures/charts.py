"""The kinds of charts by layer: lines (Figures 3, B1), bars of rates (4, 8, 9), boxes (5, 7, 10) and stacks (2, 11)."""

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from ff_memories.figures import controls, paper
from ff_memories.figures.context import Drawing, FigureContext, Headline, Measure
from ff_memories.figures.marks import (
    HALO,
    INTERVAL,
    SEEN_THROUGH,
    THIN,
    Options,
    counted,
    finish,
    layer_axis,
    legend_columns,
    length,
    linked,
    share_axis,
    source,
    thin,
    tooltips,
)
from ff_memories.figures.theme import BLACK, BLUE, INK, LIGHT_BLUE

Looks = Mapping[str, tuple[list[float], str]]  # a dash and a shape for each line
BOXES = "boxes: quartiles; whiskers: within 1.5 box lengths"
EDGES = f"lines: {INTERVAL}s of the bottom and top segments"


def lines(
    frame: pl.DataFrame,
    context: FigureContext,
    series: str,
    looks: Looks,
    colours: Mapping[str, str],
    y: alt.Y,
    legend: alt.Legend | None = None,
) -> list[alt.Chart]:
    """Return a line through ``mean`` for each series, distinguished by colour, lightness, dash and shape.

    Bars have the intervals; ticks are at the medians, if the frame has them.
    """
    names = list(looks)
    paint = alt.Scale(domain=names, range=[colours[name] for name in names])
    marks_of = alt.Scale(domain=names, range=[shape for _, shape in looks.values()])
    dashes = alt.Scale(domain=names, range=[dash for dash, _ in looks.values()])
    field = f"{series}:N"
    stroke = alt.Stroke(field, legend=None, scale=paint)
    base = alt.Chart(source(linked(frame, context.figure))).encode(x=layer_axis(context))
    ticks = base.mark_point(shape="stroke", size=30, strokeWidth=0.9, opacity=1, clip=True)
    return [
        base.mark_line(strokeWidth=1.2, clip=True).encode(
            y=y, stroke=stroke, strokeDash=alt.StrokeDash(field, legend=None, scale=dashes)
        ),
        base.mark_rule(strokeWidth=0.8, clip=True).encode(y="low:Q", y2="high:Q", stroke=stroke),
        *([ticks.encode(y="median:Q", stroke=stroke)] if "median" in frame.columns else []),
        base.mark_point(filled=True, size=18, opacity=1, clip=True).encode(
            y="mean:Q",
            color=alt.Color(field, title=None, scale=paint, legend=legend or alt.Undefined),
            shape=alt.Shape(field, title=None, scale=marks_of, legend=legend or alt.Undefined),
            tooltip=tooltips(frame),
            href="href:N",
        ),
    ]


def bars(frame: pl.DataFrame, context: FigureContext, y: alt.Y) -> list[alt.Chart]:
    """Return one bar per layer with the interval of its mean: columns ``layer``, ``mean``, ``low``, ``high``."""
    base = alt.Chart(source(linked(frame, context.figure))).encode(x=layer_axis(context))
    return [
        base.mark_bar(color=LIGHT_BLUE, stroke=BLUE, strokeWidth=thin(context), fillOpacity=SEEN_THROUGH).encode(
            y=y, tooltip=tooltips(frame), href="href:N"
        ),
        base.mark_rule(color=BLACK, strokeWidth=thin(context)).encode(y="low:Q", y2="high:Q"),
    ]


def rates(
    measure: Measure, headline: Headline, title: str | list[str], unit: str, pairs: str = "", whole: bool = True
) -> Drawing:
    """Return how rates are drawn: between the paper's bands and the lines of chance and of untrained models.

    Args:
        title: of the y axis.
        unit: what each bar counts.
        pairs: of what the random pairs are that chance is known by, if the frame has it.
        whole: whether the axis always reaches 100 %.
    """

    def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
        y = share_axis("mean", title, [0, 1] if whole or frame.is_empty() else None)
        theirs = paper.by_layer(context)
        marks = [
            *theirs.behind,
            *bars(frame, context, y),
            *controls.by_layer(frame, context),
            *controls.other_types_by_layer(frame, "mean", context),
            *theirs.above,
        ]
        notes = [counted(frame, context, unit), f"lines: {INTERVAL}", *controls.untrained(frame)]
        notes += [f"dotted: chance (random pairs of {pairs})"] if pairs else []
        return finish(marks, context, frame, notes + controls.other_types_note(frame, "mean"), headline)

    return Drawing(measure, chart, headline)


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
    theirs = paper.Overlay([], []) if scale is None else paper.by_layer(context, scale=scale)
    marks = [
        *theirs.behind,
        *behind,
        *boxes(frame, context, y),
        *controls.by_layer(frame, context),
        *controls.other_types_by_layer(frame, "median", context),
        *theirs.above,
        *above,
    ]
    notes = [*notes, *controls.untrained(frame), *controls.other_types_note(frame, "median")]
    return finish(marks, context, frame, notes, headline)


def stacked(frame: pl.DataFrame, by: str, order: tuple[str, ...]) -> pl.DataFrame:
    """Return shares with the start and end of their segments, stacked from below in ``order``."""
    rank = {name: i for i, name in enumerate(order)}
    frame = frame.rename({by: "series"}).with_columns(
        pl.col("series").cast(pl.String).replace_strict(rank, return_dtype=pl.Int64).alias("rank")
    )
    end = pl.col("mean").cum_sum().over("layer").clip(0, 1)
    frame = frame.sort("layer", "rank").with_columns(end.alias("end"))
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
    at: Options = {"x": {"expr": f"width - {length(text, 7) / 2 + 5.5}"}, "y": {"expr": "height - 8.5"}}
    nothing = alt.Chart(source([{}]))
    return [nothing.mark_rect(**ground, **height), nothing.mark_text(text=text, **at, baseline="middle")]


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
    theirs = paper.by_layer(context, covered=True)
    ours = [*segments(frame, context, unit, names, colours), *controls.edges(frame, context)]
    notes = [counted(frame, context, unit), edges, *controls.untrained(frame, same_sample=False)]
    marks = [*theirs.behind, *ours, *theirs.above, *(tag(label) if label else [])]
    return finish(marks, context, frame, notes, headline)
