"""What chance alone or an untrained model would give, as faint lines."""

import altair as alt
import polars as pl

from ff_memories.figures.context import FigureContext
from ff_memories.figures.marks import HALO, Options, layer_axis, source
from ff_memories.figures.theme import FAINT

LINE: Options = {"strokeWidth": 0.7, "strokeDash": [1.5, 1.5], "color": FAINT, "opacity": 1}
DASHES = {"chance": [1.5, 1.5], "untrained": [4, 2]}
UNTRAINED = "dashed: untrained model"


def with_untrained(frame: pl.DataFrame, control: pl.DataFrame, measure: str) -> pl.DataFrame:
    """Return a frame by layer with the column ``untrained``, a measure of the table ``control``."""
    known = control.select("layer", pl.col(measure).alias("untrained"))
    return frame.join(known, on="layer", how="left", maintain_order="left")


def by_layer(frame: pl.DataFrame, context: FigureContext) -> list[alt.Chart]:
    """Return a line through each of the columns ``chance`` and ``untrained`` that the frame has."""
    lines = []
    for name in [name for name in DASHES if name in frame.columns]:
        known = frame.select("layer", name).drop_nulls()
        base = alt.Chart(source(known)).encode(x=layer_axis(context), y=f"{name}:Q")
        lines += [base.mark_line(**HALO), base.mark_line(**LINE | {"strokeDash": DASHES[name]})]
    return lines


def level(value: float) -> list[alt.Chart]:
    """Return a line across the figure."""
    return [alt.Chart(source([{"chance": value}])).mark_rule(**LINE).encode(y="chance:Q")]
