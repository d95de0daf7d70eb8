"""Draw our own figure of the `projection_seeds` table: median ranks over seeds, and the trained softmax's."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.config import Settings
from ff_memories.figures.context import FigureContext, Tables
from ff_memories.figures.parts.marks import boxes, counted, finish, layer_axis, source
from ff_memories.figures.registry import Figure
from ff_memories.figures.theme import BLACK, ORANGE

FIGURE = Figure(
    caption="Effect of the released agreement script's random projections and dropout on the ranks of Figure "
    "5, for target tokens outside the softmax's head. Boxes show each layer's median rank over seeds; "
    "points show the median under the model's own softmax.",
    tables=("projection_seeds",),
)


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
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
    return finish(marks, context, frame, notes, headline)


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Our own figure of random projections: in how many layers the trained median lies outside their whiskers."""
    known = frame.drop_nulls("trained")
    outside = known.filter(~pl.col("trained").is_between("low", "high")).height
    layers = f"{outside} of {known.height} layers"
    return f"The trained softmax's median lies outside the random projections' range in {layers}"
