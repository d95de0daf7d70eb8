"""Draw one panel of an atlas: a number over relative depth, with a line per model and its untrained models behind."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from ff_memories.atlas.panels import Panel
from ff_memories.figures.controls import LINE
from ff_memories.figures.marks import Options, framed, in_the_centre, legend_columns, source, tooltips
from ff_memories.figures.theme import COLUMN_WIDTH, FAINT, HEIGHT, MODEL_COLOURS, STEP_COLOURS

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
TICKS = 5  # steps that a legend has room for
FADED = 0.45  # opacity of untrained models
FACTORS = (0, 1, 10, 100, 1_000, 10_000, 100_000)


def chart(
    frame: pl.DataFrame,
    panel: Panel,
    labels: Sequence[str],
    notes: Sequence[str],
    mark: str,
    describes: str,
    top: float | None = None,
    over: str | None = None,
) -> alt.LayerChart:
    """Return a panel's chart of ``label``, ``depth`` (0..1), ``value``, ``low``, ``high``, ``untrained`` and ``step``.

    ``mark``: whose results. ``top``: the end of a shared y axis. ``over``: what ``step`` is, which then colours lines.
    """
    x = alt.X(
        "depth:Q",
        title=[f"relative depth, l/L{'' if not mark else ': ' + mark}"],
        scale=alt.Scale(domain=[0, 1.02], nice=False),
        axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2~f"),
    )
    axis, lines = _axis(frame, panel, top), alt.Chart(source(frame.drop_nulls("value"))).encode(x=x)
    y = {field: alt.Y(f"{field}:Q", **axis) for field in ("untrained", "low", "value", "chance")}
    colour, plain = _colour(frame, labels, over), _colour(frame, labels, over, legend=False)
    behind = alt.Chart(source(frame.drop_nulls("untrained"))).encode(x=x)
    thin: Options = {"strokeWidth": 0.9, "strokeDash": [3, 2], "clip": True}
    thin |= {"color": FAINT} if over else {"opacity": FADED}
    bars: Options = {"strokeWidth": 0.7, "opacity": 0.35 if over else 0.6, "clip": True}
    marks = [
        behind.mark_line(**thin).encode(y=y["untrained"], detail="label:N", **({} if over else {"color": plain})),
        lines.mark_rule(**bars).encode(y=y["low"], y2="high:Q", color=plain),
        lines.mark_line(strokeWidth=1.2, clip=True).encode(y=y["value"], color=plain, detail="label:N"),
        lines.mark_point(filled=True, size=16, opacity=1, clip=True).encode(
            y=y["value"], color=colour, tooltip=tooltips(frame), **({} if over else {"shape": _shape(labels)})
        ),
    ]
    if panel.chance:
        level = alt.Chart(source([{"chance": panel.chance[0]}])).mark_rule(**LINE)
        marks.insert(0, level.encode(y=y["chance"]))
    if frame.is_empty():
        marks.append(in_the_centre("no run has these numbers", 9, color=FAINT))
    return framed(marks, describes, COLUMN_WIDTH, HEIGHT, panel.title, notes)


def reach(frame: pl.DataFrame) -> float:
    """Return the largest number that a panel draws; 0 for one without data."""
    largest = [frame[name].max() for name in ("value", "high", "untrained")]
    return max((float(value) for value in largest if value is not None), default=0.0)  # type: ignore[arg-type]


def _axis(frame: pl.DataFrame, panel: Panel, top: float | None) -> dict[str, Any]:
    """Return the title, scale and axis of the y axis, which all marks of a panel share."""
    if panel.form == "factor":
        most = max(1.0, reach(frame))
        ticks = [tick for tick in FACTORS if tick <= most * 3]
        scale = alt.Scale(type="symlog", constant=1, domain=[0, max(most * 1.15, ticks[-1])], nice=False)
        axis = alt.Axis(values=ticks, format=",d")
    else:
        scale = alt.Scale(domain=[0, top], nice=False) if top else alt.Scale(zero=True)
        axis = alt.Axis(format="~g" if panel.form == "correlation" else "~%", tickCount=5)
    return {"title": panel.axis, "scale": scale, "axis": axis}


def _colour(frame: pl.DataFrame, labels: Sequence[str], over: str | None, legend: bool = True) -> alt.Color:
    if over is None:
        scale = alt.Scale(domain=list(labels), range=list(MODEL_COLOURS[: len(labels)]))
        return alt.Color("label:N", title=None, scale=scale, legend=_legend(labels) if legend else None)
    least, most = (frame["step"].min(), frame["step"].max()) if frame.height else (1, 1)
    ends = [float(least), float(most)]  # type: ignore[arg-type]  # steps are numbers
    scale = alt.Scale(type="log" if ends[0] > 0 else "symlog", domain=ends, range=list(STEP_COLOURS), interpolate="lab")
    steps = frame["step"].unique().sort(descending=True).to_list()
    steps = steps[:: -(-len(steps) // TICKS)]  # the last one, and as many of the others as have room
    bar = alt.Legend(gradientLength=150, gradientThickness=6, format=",~r", values=steps)
    return alt.Color("step:Q", title=over, scale=scale, legend=bar if legend else None)


def _shape(labels: Sequence[str]) -> alt.Shape:
    scale = alt.Scale(domain=list(labels), range=list(SHAPES[: len(labels)]))
    return alt.Shape("label:N", title=None, scale=scale, legend=_legend(labels))


def _legend(labels: Sequence[str]) -> alt.Legend:
    return alt.Legend(columns=legend_columns(COLUMN_WIDTH, labels), symbolSize=34)
