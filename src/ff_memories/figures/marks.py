"""Build the parts of charts: axes, links, notes, legends, titles, and the phrases of headlines.

Every chart is layered on one pair of axes, fits its width exactly, and states its n and its scope in the image.
"""

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import polars as pl

from ff_memories.figures.context import FigureContext
from ff_memories.figures.registry import DRAWN, GALLERY
from ff_memories.figures.theme import HEADLINE, INK, NOTE
from ff_memories.model.info import MARKS

Options = dict[str, Any]  # of a mark, under Vega-Lite's names
INTERVAL = "95% bootstrap interval"
SEEN_THROUGH = 0.75  # opacity at which lines and bands show through bars and boxes
HALO: Options = {"stroke": "white", "strokeWidth": 2.2, "opacity": 0.9}  # under a thin line that crosses other marks
WIDTHS = (("ijl'|", 0.23), (" .,:;!ftI/\u00a0", 0.29), ("r-()[]", 0.34), ("mwMW%", 0.89),
          ("ABCDEFGHKNOPQRSUVXYZ+", 0.72))  # fmt: skip
OTHERS = 0.56  # digits and most small letters
THIN: Options = {"color": INK, "strokeWidth": 0.6}


def x_title(context: FigureContext, title: str) -> list[str]:
    """Return the x axis title, with the mark of its scope, so an image cropped to its axes still shows it."""
    room = context.width - 45  # the width left for the axes
    return [*wrapped(title, room, 8), *(wrapped(mark, room, 8) if (mark := MARKS[context.scope]) else [])]


def wrapped(text: str, points: float, size: float) -> list[str]:
    """Return the text wrapped to a width in points, at breaking spaces only."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".lstrip(" ")
        lines = [*lines[:-1], longer] if not lines[-1] or length(longer, size) <= points else [*lines, word]
    return lines


def balanced(text: str, points: float, size: float) -> list[str]:
    """Return the text in as few lines as fit, of similar length, so no word stands alone on the last line."""
    lines = wrapped(text, points, size)
    while len(narrower := wrapped(text, points - size, size)) == len(lines) > 1:
        lines, points = narrower, points - size
    return lines


def length(text: str, size: float) -> float:
    """Return an estimate, on the high side, of a text's width in points in the figures' font."""
    return size * sum(next((width for letters, width in WIDTHS if letter in letters), OTHERS) for letter in text)


def legend_fits(width: int, labels: Sequence[str]) -> bool:
    """Return whether a one-row legend of these labels fits above the plot, where it starts at the axis."""
    return sum(18 + length(label, 7) for label in labels) <= width - 45


def legend_columns(width: int, labels: Sequence[str]) -> int:
    """Return the number of columns for a legend of these labels: all in one row if they fit, else two or one."""
    if legend_fits(width, labels):
        return len(labels)
    longest = max(labels, key=lambda label: length(label, 7))
    return 2 if legend_fits(width, [longest] * 2) else 1


def layer_axis(context: FigureContext, field: str = "layer") -> alt.X:
    """Return the x axis of layers 1..L, including layers without rows in the frame."""
    return alt.X(
        f"{field}:O",
        title=x_title(context, "layer"),
        scale=alt.Scale(domain=list(range(1, context.layers + 1)), padding=0.2),
        axis=alt.Axis(labelAngle=0, labelOverlap="parity", bandPosition=0.5),
    )


def share_axis(field: str, title: str | list[str], domain: list[float] | None = None) -> alt.Y:
    """Return a y axis that shows fractions as percentages."""
    scale = alt.Scale(domain=domain, nice=False) if domain else alt.Scale(zero=True)
    return alt.Y(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(format="~%", tickCount=6))


def counted(frame: pl.DataFrame, context: FigureContext, unit: str) -> str:
    """Return the note on n: one number if all layers have the same, else the lowest and highest."""
    lacking = [] if frame["layer"].n_unique() == context.layers else [0]
    return n_per_layer([*frame["n"], *lacking], unit)


def n_per_layer(numbers: Sequence[int], unit: str) -> str:
    """Return the note on n, from the numbers of all layers."""
    low, high = min(numbers, default=0), max(numbers, default=0)
    return f"n = {low:,} {unit} per layer" if low == high else f"n = {low:,} to {high:,} {unit} per layer"


def tooltips(frame: pl.DataFrame) -> list[alt.Tooltip]:
    """Return one tooltip line for each column of the frame."""
    return [
        alt.Tooltip(f"{name}:{'Q' if kind.is_numeric() else 'N'}", format=".4~g" if kind.is_float() else alt.Undefined)
        for name, kind in frame.schema.items()
    ]


def source(frame: pl.DataFrame | list[Options]) -> alt.Data:
    """Return the frame as inline data, NaN as null, in the frame's own order."""
    return alt.Data(values=frame.fill_nan(None).to_dicts() if isinstance(frame, pl.DataFrame) else frame)


def thin(context: FigureContext) -> float:
    """Return the line width of a layer's marks, thinner for many layers so the marks stay visible."""
    return min(0.7, context.width / context.layers / 12)


def in_the_centre(text: str, size: int, **more: Any) -> alt.Chart:
    """Return a text in the middle of the axes."""
    middle: Options = {"x": {"expr": "width / 2"}, "y": {"expr": "height / 2"}}
    return alt.Chart(source([{}])).mark_text(text=text, fontSize=size, **middle, **more)


def framed(
    layers: Sequence[alt.Chart], about: str, width: int, height: int, title: str, notes: Sequence[str]
) -> alt.LayerChart:
    """Return layers on one pair of axes, ``height`` points high, under a title and notes that fit the ``width``."""
    return (
        alt.layer(*layers)
        .resolve_scale(
            color="independent", fill="independent", stroke="independent", shape="independent", strokeDash="independent"
        )
        .properties(
            description=about,
            width=width,
            height=height,
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
            title=alt.TitleParams(
                text=balanced(title, width, HEADLINE),
                subtitle=[line for note in notes for line in wrapped(note, width, NOTE)],
            ),
        )
    )


def linked(frame: pl.DataFrame, figure: str) -> pl.DataFrame:
    """Add the column ``href``, the gallery's address of the keys behind each row, to the frame."""
    address = DRAWN[figure].address
    return frame.with_columns(
        pl.Series("href", [GALLERY + address.format(**row) for row in frame.iter_rows(named=True)], dtype=pl.String)
    )


# -------------------------------------- phrases of headlines, which say in one sentence what a figure shows in this run


def percent(share: float, signed: bool = False) -> str:
    """Return a share in percent, with one decimal below ten if it has one: ``2.4 %``, ``81 %``, ``−79 %``."""
    value = round(100 * share, 1 if abs(share) < 0.0995 else 0) + 0.0  # no negative zero
    return f"{value:{'+' if signed and value else ''}.4g}\u00a0%".replace("-", "\u2212")


def both_ends(frame: pl.DataFrame, column: str, number: Callable[[float], str] = percent) -> str:
    """Return a column's values in the lowest and in the highest layer, beside those of random networks."""
    ends = frame.filter(pl.col("layer").is_in([frame["layer"].min(), frame["layer"].max()]))
    return _in_layers(ends.sort("layer").to_dicts(), column, number, ", ")


def extremes(frame: pl.DataFrame, column: str, number: Callable[[float], str] = percent) -> str:
    """Return a column's range over layers, with the layers of its minimum and maximum, beside random networks."""
    rows = frame.sort(column, "layer").to_dicts()
    ends = rows[:1] if rows[0]["layer"] == rows[-1]["layer"] else [rows[0], rows[-1]]
    return _in_layers(ends, column, number, " to ")


def _in_layers(rows: list[dict[str, Any]], column: str, number: Callable[[float], str], between: str) -> str:
    """Return values with their layers, and those of random networks: ``2 % in layer 1, 81 % in layer 16 (...)``."""
    told = between.join(f"{number(row[column])}\u00a0in\u00a0layer\u00a0{row['layer']}" for row in rows)
    bare = [row["untrained"] for row in rows if row.get("untrained") is not None]
    return told + (f" (random networks: {', '.join(map(number, bare))})" if len(bare) == len(rows) else "")
