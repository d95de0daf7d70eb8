"""Draw our own figure of the `sensitivity` table, with claims as rows and choices as columns."""

import altair as alt
import polars as pl

from ff_memories.config import Settings
from ff_memories.figures.context import Drawing, FigureContext, Tables
from ff_memories.figures.marks import finish, source, tooltips, x_title
from ff_memories.figures.theme import BLACK, BLUE, ORANGE
from ff_memories.judge.sensitivity import changes

ROW = 11  # points per claim
NAMED = 6  # claims in a title
MOST = 1.0  # relative change at which the colour saturates
CROSS, NONE = "M-1,-1L1,1M-1,1L1,-1", "M-1,0L1,0"
SHAPES = {"reproduced": "circle", "holds": "circle", "not_reproduced": CROSS, "fails": CROSS,
          "too_small": "triangle-down", "undecided": "diamond", "measured": "square",
          "not_applicable": NONE, "not_attempted": NONE}  # fmt: skip


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Return claims and choices with the change from the run's own measurement; of unmeasured claims, new verdicts."""
    frame = changes(tables["sensitivity"]).filter(
        pl.col("measured").is_not_null() | pl.col("changed") | pl.col("refused")
    )
    label = pl.col("choice") + ": " + pl.col("value")
    return frame.select("claim", label.alias("choice"), pl.exclude("claim", "choice", "value"))


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Draw a cell for each claim and choice, coloured by the change, with a mark if the verdict changes."""
    claims, choices = frame["claim"].unique(maintain_order=True), frame["choice"].unique(maintain_order=True)
    y = alt.Y("claim:N", title="claim", sort=None, scale=alt.Scale(domain=claims.to_list()))
    x = alt.X(
        "choice:N",
        title=x_title(context, "choice"),
        sort=None,
        scale=alt.Scale(domain=choices.to_list()),
        axis=alt.Axis(labelAngle=-60, labelLimit=0),
    )
    colour = alt.Color(
        "change:Q",
        title="change of the measured value",
        scale=alt.Scale(domain=[-MOST, 0, MOST], range=[ORANGE, "#FFFFFF", BLUE], clamp=True, interpolate="rgb"),
        legend=alt.Legend(
            labelExpr="datum.value ? format(datum.value, '+.0%') : '0%'",
            gradientLength=110,
            gradientThickness=6,
            values=[-MOST, 0, MOST],
        ),
    )
    changed = frame.filter("changed")
    became = [verdict for verdict in SHAPES if verdict in changed["verdict"]]
    shape = alt.Shape(
        "verdict:N",
        title="verdict becomes",
        scale=alt.Scale(domain=became, range=[SHAPES[verdict] for verdict in became]),
        legend=alt.Legend(labelExpr="replace(datum.label, '_', ' ')"),
    )
    addressed = frame.with_columns(("../report/report.html#" + pl.col("claim")).alias("href"))
    cells = alt.Chart(source(addressed)).encode(x=x, y=y)
    marks = [
        cells.mark_rect(stroke="#E6E6E6", strokeWidth=0.5).encode(color=colour, tooltip=tooltips(frame), href="href:N"),
    ]
    if became:
        points = alt.Chart(source(changed)).encode(x=x, y=y, shape=shape)
        marks.append(points.mark_point(size=26, stroke=BLACK, fill="white", strokeWidth=1.1, opacity=1))
    notes = ["each column: this run with one key changed; colours saturate at a change of 100 %"]
    return finish(marks, context, frame, notes, headline).properties(height=max(context.height, ROW * len(claims)))


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Our own figure of analysis choices: which verdicts change under any of them, and how many numbers move."""
    claims, moved = frame["claim"].n_unique(), frame.filter("beyond")["claim"].n_unique()
    changed = frame.filter("changed")["claim"].unique(maintain_order=True).to_list()
    named = f" ({', '.join(changed)})" if len(changed) <= NAMED else ""
    verdicts = (
        f"{len(changed)} of {claims} verdicts {'changes' if len(changed) == 1 else 'change'} under some choice{named}"
    )
    refused = frame.filter("refused")["choice"].n_unique()
    return (
        f"{verdicts if changed else 'No verdict changes under any choice'}; "
        f"{moved} of {claims} numbers {'moves' if moved == 1 else 'move'}"
        + (f"; {refused} of the choices cannot be run" if refused else "")
    )


DRAWINGS = {"sensitivity": Drawing(data, chart, headline)}
