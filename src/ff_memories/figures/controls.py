"""What chance alone would give, as faint lines behind the marks."""

import altair as alt
import polars as pl

from ff_memories.figures.look import Look
from ff_memories.figures.marks import HALO, layer_axis, source
from ff_memories.figures.theme import FAINT

LINE = {"strokeWidth": 0.7, "strokeDash": [1.5, 1.5], "color": FAINT, "opacity": 1}


def by_layer(frame: pl.DataFrame, look: Look) -> list[alt.Chart]:
    """Return a line through the column ``chance``."""
    known = frame.select("layer", "chance").drop_nulls()
    base = alt.Chart(source(known)).encode(x=layer_axis(look), y="chance:Q")
    return [base.mark_line(**HALO), base.mark_line(**LINE)]


def level(value: float) -> list[alt.Chart]:
    """Return a line across the figure."""
    return [alt.Chart(source([{"chance": value}])).mark_rule(**LINE).encode(y="chance:Q")]
