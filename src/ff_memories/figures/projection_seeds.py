"""Draw our own figure of the `projection_seeds` table: median ranks over seeds, and the trained softmax's."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.config import Settings
from ff_memories.figures.context import FigureContext
from ff_memories.figures.marks import boxes, counted, finish, layer_axis, source
from ff_memories.figures.theme import BLACK, ORANGE


def data(tables: dict[str, pl.DataFrame], settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Return quartiles over seeds of each layer's median rank, with the ``trained`` softmax's median."""
    table = tables["projection_seeds"].drop_nulls("median")
    trained = table.filter(pl.col("projection") == "adaptive").select("layer", trained="median")
    drawn = table.filter(pl.col("projection") == "random").select("layer", rank="median")
    return measures.boxes(drawn, "rank").join(trained, on="layer", how="left", maintain_order="left")


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Draw boxes, and a point for the trained softmax."""
    y = alt.Y("low:Q", title=["median rank of", "targets in the tails"], axis=alt.Axis(format="~s", tickCount=6))
    points = alt.Chart(source(frame)).mark_point(
        shape="diamond", filled=True, size=26, color=ORANGE, stroke=BLACK, strokeWidth=0.5, opacity=1
    )
    marks = [*boxes(frame, context, y), points.encode(x=layer_axis(context), y="trained:Q")]
    notes = [counted(frame, context, "seeds"), "boxes: random projections; diamonds: the trained softmax"]
    return finish(marks, context, frame, notes)
