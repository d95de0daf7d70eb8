"""Figures B1 to B3: what is left of a memory's direct effect, and what predictions lose; and that of `sensitivity`."""

from dataclasses import replace

import altair as alt
import numpy as np
import polars as pl

from ff_memories.config import Settings
from ff_memories.figures import controls, marks
from ff_memories.figures.charts import Looks, lines
from ff_memories.figures.context import Drawing, Drawn, FigureContext, Frames
from ff_memories.figures.theme import BLACK, BLUE, CONTROL_COLOURS, ORANGE
from ff_memories.judge.sensitivity import changes
from ff_memories.paper.beyond import measures as removal

SERIES = {"none": "the memory", "matched": "a matched memory", "direction": "a random direction"}
CONTROL_LOOKS: Looks = {
    "the memory": ([1, 0], "circle"),
    "a matched memory": ([4, 2], "square"),
    "a random direction": ([1.5, 1.5], "triangle-up"),
}
PANELS = {"layer": "the layer's", "model": "the model's"}  # of Figure B3, by whose prediction changes
LAYERS = alt.Legend(gradientLength=90, gradientThickness=6, tickCount=3, format="d")
TOP = 1.12  # of the axis, with room for the panels' names
ROW = 11  # points per claim
NAMED = 6  # claims in a title
MOST = 1.0  # relative change at which the colour saturates
CROSS, NONE = "M-1,-1L1,1M-1,1L1,-1", "M-1,0L1,0"
SHAPES = {"reproduced": "circle", "holds": "circle", "not_reproduced": CROSS, "fails": CROSS,
          "too_small": "triangle-down", "undecided": "diamond", "measured": "square",
          "not_applicable": NONE, "not_attempted": NONE}  # fmt: skip


def effects(tables: Frames, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure B1: share of the direct effect that is left, per layer and ``series``, over memories."""
    shares = removal.shares(tables["causal"], context.layers, settings.seed)
    series = pl.col("control").replace_strict(SERIES, return_dtype=pl.String)
    return shares.with_columns(series).rename({"control": "series"})


def effects_chart(frame: pl.DataFrame, context: FigureContext) -> Drawn:
    """Figure B1: a line for what is changed, on an axis that fits none and all of the effect and memories' means."""
    shown = [0.0, 1.0, *frame.filter(pl.col("series") != SERIES["direction"])["mean"].to_list()]
    room = 0.15 * (max(shown) - min(shown))
    y = marks.share_axis("mean", ["share of the", "direct effect left"], [min(shown) - room, max(shown) + room])
    legend = alt.Legend(columns=marks.legend_columns(context.width, list(CONTROL_LOOKS)))
    layers = [
        *controls.by_series(frame, context, "series", CONTROL_COLOURS),
        *controls.level(1),
        *lines(frame, context, "series", CONTROL_LOOKS, CONTROL_COLOURS, y, legend),
    ]
    notes = [
        marks.counted(frame, replace(context, layers=context.layers - 1), "memories"),
        f"bars: {marks.INTERVAL} over memories, cut at the axis",
        "dotted line: all of it is left",
        *controls.untrained(frame, same_sample=False),
    ]
    return Drawn(layers, notes)


def effects_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure B1: how much of a memory's direct effect is left, and how much another memory does."""
    means = [frame.filter(pl.col("series") == SERIES[name])["mean"].to_numpy() for name in ("none", "matched")]
    share, *other = [marks.percent(float(np.median(of))) for of in means if len(of)]
    text = f"Of a memory's direct effect, {share} is left in the median layer"
    return f"{text}; removing a matched memory does {other[0]}" if other else text


def memories(tables: Frames, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure B2: each memory's mean ``direct`` and ``total``; ``n`` is the number of memories of its layer."""
    memories = removal.effects(tables["causal"], context.layers).filter(pl.col("control") == "none")
    key = (pl.col("memory") % removal.KEYS).alias("key")
    return memories.select("layer", key, "direct", "total", n=pl.len().over("layer"))


def memories_chart(frame: pl.DataFrame, context: FigureContext) -> Drawn:
    """Figure B2: a point for each memory, coloured by its layer, and the line where nothing is lost."""
    least, most = (frame["direct"].min(), frame["direct"].max()) if len(frame) else (-1.0, 1.0)
    ends = [{"direct": end, "total": end} for end in (least, most)]
    x = alt.X("direct:Q", title=marks.x_title(context, "direct effect (change of logit)"))
    y = alt.Y("total:Q", title="total effect")
    colour = alt.Color("layer:Q", scale=_by_layer(context.layers - 1), legend=LAYERS)
    layers = [
        alt.Chart(marks.source(ends)).mark_line(**controls.LINE).encode(x=x, y=y),
        alt.Chart(marks.source(marks.linked(frame, context.figure)))
        .mark_point(size=14, strokeWidth=0.8, opacity=0.9)
        .encode(x=x, y=y, color=colour, tooltip=marks.tooltips(frame), href="href:N"),
    ]
    below = replace(context, layers=context.layers - 1)
    notes = [marks.counted(frame, below, "memories"), "line: total = direct"]
    return Drawn(layers, notes)


def _by_layer(layers: int) -> alt.Scale:
    return alt.Scale(domain=[1, max(2, layers)], range=[ORANGE, BLUE], interpolate="rgb")


def memories_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure B2: how many memories' total effects have the sign of their direct ones."""
    kept = frame.select((pl.col("direct") * pl.col("total") > 0).mean()).item()
    return f"The layers above keep the sign of the direct effect for {marks.percent(kept)} of the memories"


def predictions_chart(frame: pl.DataFrame, context: FigureContext) -> Drawn:
    """Figure B3: lines coloured by layer, in two panels side by side on one pair of axes."""
    numbers = frame["removed"].unique().sort().to_list() or [1]
    second = len(numbers)  # where the panels meet; the second one's numbers begin at the next place
    places = {n: i for i, n in enumerate(numbers)}
    position = pl.col("removed").cast(pl.Int64).replace_strict(places, return_dtype=pl.Int64)
    panel = pl.when(pl.col("series") == "model").then(second + 1).otherwise(0)
    shown = marks.linked(frame, context.figure).with_columns(place=position + panel)
    whole = _whole(frame).with_columns(place=position + panel)
    x = alt.X(
        "place:Q",
        title=marks.x_title(context, "memories removed, the largest ones"),
        scale=alt.Scale(domain=[-0.5, 2 * second + 0.5], nice=False),
        axis=alt.Axis(
            values=[i for i in range(2 * second + 1) if i != second],
            labelExpr=f"[{','.join(map(str, [*numbers, 0, *numbers]))}][datum.value]",
            labelOverlap=False,
        ),
    )
    y = marks.share_axis("mean", ["share of predictions", "that change"], [0, TOP])
    paint = _by_layer(context.layers)
    stroke = alt.Stroke("layer:Q", scale=paint, legend=None)
    base, average = alt.Chart(marks.source(shown)).encode(x=x), alt.Chart(marks.source(whole))
    average = average.encode(x=x, detail="series:N")
    dashed: marks.Options = {"strokeWidth": 1.2, "strokeDash": controls.DASHES["untrained"], "color": BLACK}
    notes = [marks.counted(frame, context, "prefixes"), "thick: all layers"]
    notes += controls.untrained(frame, same_sample=False)
    titles = [{"place": i * (second + 1) - 0.4, "mean": TOP, "text": text} for i, text in enumerate(PANELS.values())]
    layers = [
        alt.Chart(marks.source([{"place": second}])).mark_rule(**controls.LINE).encode(x=x),
        base.mark_line(strokeWidth=0.7, opacity=0.6).encode(y=y, detail=["layer:N", "series:N"], stroke=stroke),
        base.mark_point(filled=True, size=5, opacity=1).encode(
            y=y, color=alt.Color("layer:Q", scale=paint, legend=LAYERS), tooltip=marks.tooltips(frame), href="href:N"
        ),
        average.mark_line(strokeWidth=1.6, color=BLACK).encode(y=y),
        *([average.mark_line(**dashed).encode(y="untrained:Q")] if "untrained" in whole.columns else []),
        alt.Chart(marks.source(titles)).mark_text(align="left", baseline="top", dy=2).encode(x=x, y=y, text="text:N"),
    ]
    return Drawn(layers, notes)


def _whole(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the ``mean`` over the prefixes of all layers, per ``series`` and number ``removed``.

    ``untrained``: likewise, where the frame has it.
    """
    means = pl.col([name for name in ("mean", "untrained") if name in frame.columns]).cast(pl.Float64)
    over_prefixes = (means * pl.col("n")).sum() / pl.col("n").sum()
    return frame.group_by("removed", "series").agg(over_prefixes).sort("series", "removed")


def predictions_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure B3: how many of the layers' predictions, and of the model's, change without the largest memories."""
    shares = {(row["removed"], row["series"]): marks.percent(row["mean"]) for row in _whole(frame).to_dicts()}
    few, *more = frame["removed"].unique().sort().to_list()
    largest = "the largest memory" if few == 1 else f"the {few} largest memories"
    text = f"Without {largest}, {shares[few, 'layer']} of the layers' predictions change"
    text += f" and {shares[few, 'model']} of the model's"
    return f"{text}; without {more[-1]}, {shares[more[-1], 'layer']} and {shares[more[-1], 'model']}" if more else text


def sensitivity(tables: Frames, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Return claims and choices with the change from the run's own measurement; of unmeasured claims, new verdicts."""
    shown = pl.col("measured").is_not_null() | pl.col("changed") | pl.col("refused")
    frame = changes(tables["sensitivity"]).filter(shown)
    label = pl.col("choice") + ": " + pl.col("value")
    return frame.select("claim", label.alias("choice"), pl.exclude("claim", "choice", "value"))


def sensitivity_chart(frame: pl.DataFrame, context: FigureContext) -> Drawn:
    """Draw a cell for each claim and choice, coloured by the change, with a mark if the verdict changes."""
    claims, choices = frame["claim"].unique(maintain_order=True), frame["choice"].unique(maintain_order=True)
    y = alt.Y("claim:N", title="claim", sort=None, scale=alt.Scale(domain=claims.to_list()))
    x = alt.X(
        "choice:N",
        title=marks.x_title(context, "choice"),
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
    cells = alt.Chart(marks.source(addressed)).encode(x=x, y=y)
    squares = cells.mark_rect(stroke="#E6E6E6", strokeWidth=0.5)
    layers = [squares.encode(color=colour, tooltip=marks.tooltips(frame), href="href:N")]
    if became:
        points = alt.Chart(marks.source(changed)).encode(x=x, y=y, shape=shape)
        layers.append(points.mark_point(size=26, stroke=BLACK, fill="white", strokeWidth=1.1, opacity=1))
    notes = ["each column: this run with one key changed; colours saturate at a change of 100 %"]
    return Drawn(layers, notes, ROW * len(claims))


def sensitivity_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Our own figure of analysis choices: which verdicts change under any of them, and how many numbers move."""
    claims, moved = frame["claim"].n_unique(), frame.filter("beyond")["claim"].n_unique()
    changed = frame.filter("changed")["claim"].unique(maintain_order=True).to_list()
    refused = frame.filter("refused")["choice"].n_unique()
    parts = ["No verdict changes under any choice"]
    if changed:
        named = f" ({', '.join(changed)})" if len(changed) <= NAMED else ""
        change = "changes" if len(changed) == 1 else "change"
        parts = [f"{len(changed)} of {claims} verdicts {change} under some choice{named}"]
    parts.append(f"{moved} of {claims} numbers {'moves' if moved == 1 else 'move'}")
    return "; ".join([*parts, f"{refused} of the choices cannot be run"] if refused else parts)


DRAWINGS = {
    "figureb1": Drawing(effects, effects_chart, effects_headline),
    "figureb2": Drawing(memories, memories_chart, memories_headline),
    "figureb3": Drawing(
        lambda tables, settings, _: removal.lost(tables["removals"], settings.seed),
        predictions_chart,
        predictions_headline,
    ),
    "sensitivity": Drawing(sensitivity, sensitivity_chart, sensitivity_headline),
}
