"""Figure B3, beyond the paper: how many predictions change if a layer's largest memories are removed together."""

import altair as alt
import polars as pl

from ff_memories.config import Settings
from ff_memories.figures.context import Drawing, FigureContext, Tables
from ff_memories.figures.controls import DASHES, LINE
from ff_memories.figures.controls import untrained as untrained_note
from ff_memories.figures.links import linked
from ff_memories.figures.marks import Options, counted, finish, share_axis, source, tooltips, x_title
from ff_memories.figures.phrases import NO_DATA, percent
from ff_memories.figures.theme import BLACK, BLUE, ORANGE
from ff_memories.paper.beyond import measures as removal

SERIES = ("layer", "model")
PANELS = dict(zip(SERIES, ("the layer's", "the model's"), strict=True))
TOP = 1.12  # of the axis, with room for the panels' names


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure B3: share of prefixes whose prediction changes, per layer, ``series`` and number ``removed``."""
    return removal.lost(tables["removals"], settings.seed)


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure B3: lines coloured by layer, in two panels side by side on one pair of axes."""
    numbers = frame["removed"].unique().sort().to_list() or [1]
    second = len(numbers)  # where the panels meet; the second one's numbers begin at the next place
    places = {n: i for i, n in enumerate(numbers)}
    place = pl.col("removed").cast(pl.Int64).replace_strict(places, return_dtype=pl.Int64)
    panel = pl.when(pl.col("series") == SERIES[1]).then(second + 1).otherwise(0)
    shown, whole = (part.with_columns(place=place + panel) for part in (linked(frame, context.figure), _whole(frame)))
    x = alt.X(
        "place:Q",
        title=x_title(context, "memories removed, the largest ones"),
        scale=alt.Scale(domain=[-0.5, 2 * second + 0.5], nice=False),
        axis=alt.Axis(
            values=[i for i in range(2 * second + 1) if i != second],
            labelExpr=f"[{','.join(map(str, [*numbers, 0, *numbers]))}][datum.value]",
            labelOverlap=False,
        ),
    )
    y = share_axis("mean", ["share of predictions", "that change"], [0, TOP])
    paint = alt.Scale(domain=[1, max(2, context.layers)], range=[ORANGE, BLUE], interpolate="rgb")
    legend = alt.Legend(gradientLength=90, gradientThickness=6, tickCount=3, format="d")
    stroke = alt.Stroke("layer:Q", scale=paint, legend=None)
    base = alt.Chart(source(shown)).encode(x=x)
    notes = [counted(frame, context, "prefixes"), "thick: all layers", *untrained_note(frame, own=False)]
    titles = [{"place": i * (second + 1) - 0.4, "mean": TOP, "text": text} for i, text in enumerate(PANELS.values())]
    marks = [
        alt.Chart(source([{"place": second}])).mark_rule(**LINE).encode(x=x),
        base.mark_line(strokeWidth=0.7, opacity=0.6).encode(y=y, detail=["layer:N", "series:N"], stroke=stroke),
        base.mark_point(filled=True, size=5, opacity=1).encode(
            y=y, color=alt.Color("layer:Q", scale=paint, legend=legend), tooltip=tooltips(frame), href="href:N"
        ),
        alt.Chart(source(whole)).mark_line(strokeWidth=1.6, color=BLACK).encode(x=x, y=y, detail="series:N"),
        *_untrained(whole, x),
        alt.Chart(source(titles)).mark_text(align="left", baseline="top", dy=2).encode(x=x, y=y, text="text:N"),
    ]
    return finish(marks, context, frame, notes, headline)


def _whole(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the ``mean`` over the prefixes of all layers, per ``series`` and number ``removed``.

    ``untrained``: likewise, where the frame has it.
    """
    of = lambda name: ((pl.col(name).cast(pl.Float64) * pl.col("n")).sum() / pl.col("n").sum()).alias(name)
    means = [of(name) for name in ("mean", "untrained") if name in frame.columns]
    return frame.group_by("removed", "series").agg(means).sort("series", "removed")


def _untrained(whole: pl.DataFrame, x: alt.X) -> list[alt.Chart]:
    """Return the untrained models' line over the prefixes of all layers."""
    if "untrained" not in whole.columns:
        return []
    dashed: Options = {"strokeWidth": 1.2, "strokeDash": DASHES["untrained"], "color": BLACK}
    return [alt.Chart(source(whole)).mark_line(**dashed).encode(x=x, y="untrained:Q", detail="series:N")]


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure B3: how many of the layers' predictions, and of the model's, change without the largest memories."""
    if frame.is_empty():
        return NO_DATA
    said = {(row["removed"], row["series"]): percent(row["mean"]) for row in _whole(frame).to_dicts()}
    few, *more = frame["removed"].unique().sort().to_list()
    largest = "the largest memory" if few == 1 else f"the {few} largest memories"
    text = f"Without {largest}, {said[few, 'layer']} of the layers' predictions change"
    text += f" and {said[few, 'model']} of the model's"
    return f"{text}; without {more[-1]}, {said[more[-1], 'layer']} and {said[more[-1], 'model']}" if more else text


DRAWINGS = {"figureb3": Drawing(data, chart, headline)}
