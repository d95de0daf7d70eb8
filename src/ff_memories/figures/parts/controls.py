"""Draw chance levels and untrained models as faint lines behind a figure's own marks."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.figures.context import FigureContext
from ff_memories.figures.parts.marks import Options, layer_axis, source
from ff_memories.figures.theme import FAINT

LINE: Options = {"strokeWidth": 0.7, "strokeDash": [1.5, 1.5], "color": FAINT, "opacity": 1}
BAND: Options = {"color": FAINT, "opacity": 0.15}
DASHES = {"chance": [1.5, 1.5], "untrained": [4, 2]}
ENDS = ("low", "high")


def with_chance(rates: pl.DataFrame, cases: pl.DataFrame, prediction: str, target: str) -> pl.DataFrame:
    """Add the column ``chance``, how often predictions hit the targets of other cases, to a frame by layer."""
    chances = measures.chance_agreement(cases, prediction, target)
    return rates.join(chances, on="layer", how="left", maintain_order="left")


def with_untrained(frame: pl.DataFrame, control: pl.DataFrame, measure: str) -> pl.DataFrame:
    """Add the column ``untrained``, a measure from the table ``control``, to a frame by layer.

    If the table has the measure's minimum and maximum over seeds, also add ``untrained_low`` and
    ``untrained_high``.
    """
    names = {measure: "untrained"} | {f"{measure}_{end}": f"untrained_{end}" for end in ENDS}
    known = control.select("layer", *(pl.col(a).alias(b) for a, b in names.items() if a in control.columns))
    return frame.join(known, on="layer", how="left", maintain_order="left")


def by_layer(frame: pl.DataFrame, context: FigureContext) -> list[alt.Chart]:
    """Return a line for each of the frame's columns ``chance`` and ``untrained``, with the band of the latter."""
    lines = []
    if _banded(frame):
        known = alt.Chart(source(frame.select("layer", *_ends()).drop_nulls()))
        lines.append(known.mark_area(**BAND).encode(x=layer_axis(context), y="untrained_low:Q", y2="untrained_high:Q"))
    for name in [name for name in DASHES if name in frame.columns]:
        known = alt.Chart(source(frame.select("layer", name).drop_nulls()))
        line = known.mark_line(**LINE | {"strokeDash": DASHES[name]})
        lines.append(line.encode(x=layer_axis(context), y=f"{name}:Q"))
    return lines


def untrained(frame: pl.DataFrame) -> str:
    """Return the note that explains the dashed line and its band, if there is one."""
    return "dashed: untrained model" + ("s; band: range over seeds" if _banded(frame) else "")


def level(value: float) -> list[alt.Chart]:
    """Return a horizontal line at a value."""
    return [alt.Chart(source([{"chance": value}])).mark_rule(**LINE).encode(y="chance:Q")]


def _ends() -> list[str]:
    return [f"untrained_{end}" for end in ENDS]


def _banded(frame: pl.DataFrame) -> bool:
    return set(_ends()) <= set(frame.columns)
