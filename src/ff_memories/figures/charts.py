"""The kinds of charts by layer: lines (Figures 3, B1), bars of rates (4, 8, 9), boxes (5, 7, 10) and stacks (2, 11)."""

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from ff_memories.figures import controls, marks, paper
from ff_memories.figures.context import Drawing, Drawn, FigureContext, Headline, Measure
from ff_memories.figures.marks import Options
from ff_memories.figures.theme import BLACK, BLUE, INK, LIGHT_BLUE

Looks = Mapping[str, tuple[list[float], str]]  # a dash and a shape for each line
BOXES = "boxes: quartiles; whiskers: within 1.5 box lengths"
EDGES = f"lines: {marks.INTERVAL}s of the bottom and top segments"


def lines(
    frame: pl.DataFrame,
    context: FigureContext,
    series: str,
    looks: Looks,
    colours: Mapping[str, str],
    y: alt.Y,
    legend: alt.Legend | None = None,
) -> list[alt.Chart]:
    """Return a line through ``mean`` per series, by colour, dash and shape, with bars, and ticks at any ``median``."""
    names = list(looks)
    paint = alt.Scale(domain=names, range=[colours[name] for name in names])
    marks_of = alt.Scale(domain=names, range=[shape for _, shape in looks.values()])
    dashes = alt.Scale(domain=names, range=[dash for dash, _ in looks.values()])
    field = f"{series}:N"
    stroke = alt.Stroke(field, legend=None, scale=paint)
    base = alt.Chart(marks.source(marks.linked(frame, context.figure))).encode(x=marks.layer_axis(context))
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
            tooltip=marks.tooltips(frame),
            href="href:N",
        ),
    ]


def bars(frame: pl.DataFrame, context: FigureContext, y: alt.Y, colours: Sequence[str]) -> list[alt.Chart]:
    """Return one bar per layer with the interval of its mean: columns ``layer``, ``mean``, ``low``, ``high``."""
    base = alt.Chart(marks.source(marks.linked(frame, context.figure))).encode(x=marks.layer_axis(context))
    return [
        base.mark_bar(
            color=colours[0], stroke=colours[1], strokeWidth=marks.thin(context), fillOpacity=marks.SEEN_THROUGH
        ).encode(y=y, tooltip=marks.tooltips(frame), href="href:N"),
        base.mark_rule(color=BLACK, strokeWidth=marks.thin(context)).encode(y="low:Q", y2="high:Q"),
    ]


def rates(
    measure: Measure, headline: Headline, title: str | list[str], unit: str, pairs: str = "", whole: bool = True,
    colours: Sequence[str] = (LIGHT_BLUE, BLUE),
) -> Drawing:  # fmt: skip
    """Return how rates of ``unit``, and any random ``pairs``, are drawn; ``whole``: the axis always reaches 100 %."""

    def chart(frame: pl.DataFrame, context: FigureContext) -> Drawn:
        y = marks.share_axis("mean", title, [0, 1] if whole or frame.is_empty() else None)
        theirs = paper.by_layer(context)
        layers = [*theirs.behind, *bars(frame, context, y, colours), *controls.by_layer(frame, context), *theirs.above]
        notes = [marks.counted(frame, context, unit), f"lines: {marks.INTERVAL}", *controls.untrained(frame)]
        notes += [f"dotted: chance (random pairs of {pairs})"] if pairs else []
        return Drawn(layers, notes)

    return Drawing(measure, chart, headline)


def boxes(frame: pl.DataFrame, context: FigureContext, y: alt.Y) -> list[alt.Chart]:
    """Return a box per layer: ``low`` (its axis ``y`` cuts what lies beyond), ``q1``, ``median``, ``q3``, ``high``."""
    base = alt.Chart(marks.source(marks.linked(frame, context.figure))).encode(x=marks.layer_axis(context))
    return [
        base.mark_rule(color=INK, strokeWidth=marks.thin(context), clip=True).encode(y=y, y2="high:Q"),
        base.mark_bar(
            color=LIGHT_BLUE, stroke=BLUE, strokeWidth=marks.thin(context), fillOpacity=marks.SEEN_THROUGH, clip=True
        ).encode(y="q1:Q", y2="q3:Q", tooltip=marks.tooltips(frame), href="href:N"),
        base.mark_tick(color=BLACK, thickness=1.4, width={"band": 1}, clip=True).encode(y="median:Q"),
    ]


def box_chart(
    frame: pl.DataFrame,
    context: FigureContext,
    y: alt.Y,
    notes: list[str],
    scale: float | None = 1,
    behind: Sequence[alt.Chart] = (),
) -> Drawn:
    """Return boxes over ``behind``; ``scale`` turns the paper's values into the axis's unit; ``None``: without them."""
    theirs = paper.Overlay([], []) if scale is None else paper.by_layer(context, scale=scale)
    layers = [*theirs.behind, *behind, *boxes(frame, context, y), *controls.by_layer(frame, context), *theirs.above]
    return Drawn(layers, [*notes, *controls.untrained(frame)])


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
    """Return shares of ``stacked``, called ``names``, with intervals of bottom and top, which have a fixed end."""
    x, y = marks.layer_axis(context), marks.share_axis("start", title, [0, 1])
    labels = list(names.values())
    called = pl.col("series").replace_strict(names, return_dtype=pl.String)
    named = marks.linked(frame, context.figure).with_columns(called)
    fill = alt.Color(
        "series:N",
        title=None,
        scale=alt.Scale(domain=labels, range=[colours[name] for name in names]),
        legend=alt.Legend(columns=marks.legend_columns(context.width, labels)),
    )
    bars = (
        alt.Chart(marks.source(named))
        .mark_bar(stroke="white", strokeWidth=0.3)
        .encode(x=x, y=y, y2="end:Q", color=fill, tooltip=marks.tooltips(frame), href="href:N")
    )
    step = context.width / context.layers / 12
    lowest, uppermost = (named.filter(pl.col("series") == label) for label in (labels[0], labels[-1]))
    start, end = pl.col("start"), pl.col("end")
    ends = [
        (lowest.select("layer", low=start + pl.col("low"), high=start + pl.col("high")), -step),
        (uppermost.select("layer", low=end - pl.col("high"), high=end - pl.col("low")), step),
    ]
    return [bars] + [
        alt.Chart(marks.source(part)).mark_rule(**look, xOffset=aside, clip=True).encode(x=x, y="low:Q", y2="high:Q")
        for part, aside in ends
        for look in (marks.HALO | {"strokeWidth": 1.4}, marks.THIN)
    ]


def tag(text: str) -> list[alt.Chart]:
    """Return a label in the plot's lower corner, inside the axes, where cropping cannot remove it."""
    wide = marks.length(text, 7)
    ground: Options = {"x": {"expr": f"width - {wide + 8}"}, "x2": {"expr": "width - 3"}, "cornerRadius": 2}
    height: Options = {"y": {"expr": "height - 14"}, "y2": {"expr": "height - 3"}, "color": "white", "opacity": 0.9}
    at: Options = {"x": {"expr": f"width - {wide / 2 + 5.5}"}, "y": {"expr": "height - 8.5"}}
    nothing = alt.Chart(marks.source([{}]))
    return [nothing.mark_rect(**ground, **height), nothing.mark_text(text=text, **at, baseline="middle")]


def stack_chart(
    frame: pl.DataFrame,
    context: FigureContext,
    unit: str,
    names: dict[str, str],
    colours: dict[str, str],
    edges: str,
    label: str = "",
) -> Drawn:
    """Return stacked bars, the edges of untrained models' segments, the paper's values, and a ``label`` in the axes."""
    theirs = paper.by_layer(context, covered=True)
    ours = [*segments(frame, context, unit, names, colours), *controls.edges(frame, context)]
    notes = [marks.counted(frame, context, unit), edges, *controls.untrained(frame, same_sample=False)]
    return Drawn([*theirs.behind, *ours, *theirs.above, *(tag(label) if label else [])], notes)
