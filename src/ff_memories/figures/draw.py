"""Turn tables into a figure's frame, the frame into its chart, and the figures' CSV files into frames again."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import altair as alt
import polars as pl

from ff_memories.base import sections
from ff_memories.config import Settings
from ff_memories.figures import controls, marks
from ff_memories.figures.context import FigureContext, Frames
from ff_memories.figures.registry import DRAWN, caption

NO_DATA = "No data"
_modules = sections.modules("ff_memories.paper.*.figures").values()
DRAWINGS = {name: drawing for module in _modules for name, drawing in module.DRAWINGS.items()}


def data(
    tables: Frames, settings: Settings, context: FigureContext, models: Mapping[str, Frames] | None = None
) -> pl.DataFrame:
    """Return the frame that the figure draws.

    ``models``: the tables of the baselines' models, by name. They are measured as the run's are, or by
    ``of_a_model`` if the run's frame sets the marks.
    """
    drawing = DRAWINGS[context.figure]
    frame = drawing.data(tables, settings, context)
    if not models or frame.is_empty():
        return frame
    measure = drawing.of_a_model or (lambda frame, *given: drawing.data(*given))
    measured = {name: measure(frame, model_tables, settings, context) for name, model_tables in models.items()}
    return controls.with_models(frame, measured, DRAWN[context.figure].untrained)


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Return the complete figure of a frame from ``data``, at its exact width, with its headline and notes above.

    A figure without data says so, in its centre and as its headline, and omits the paper's values: they never stand
    alone.
    """
    drawing, headline, centre = DRAWINGS[context.figure], NO_DATA, [marks.in_the_centre("no data", 11)]
    if frame.is_empty():
        context = replace(context, options=context.options.model_copy(update={"paper_values": False}))
    else:
        headline, centre = drawing.headline(frame, context), []
    drawn = drawing.chart(frame, context)
    about = caption(context.figure, context.target, context.active)
    height = max(context.height, drawn.height)
    whole = marks.framed([*drawn.layers, *centre], about, context.width, height, headline, drawn.notes)
    return whole.properties(usermeta={"headline": headline})


def plotted(paths: Iterable[Path]) -> pl.DataFrame:
    """Return the numbers of all figures in the report's order, given their files, such as figure2.csv.

    A row per mark: ``figure``, and the columns of the figure's file; null in those that only other figures have.
    """
    by_name = {path.stem: path for path in paths}
    parts = [pl.DataFrame(schema={"figure": pl.String})]
    for name in (name for name in DRAWN if name in by_name):
        numbers = pl.read_csv(by_name[name], infer_schema_length=None)
        parts.append(numbers.select(pl.lit(name).alias("figure"), pl.all()))
    return pl.concat(parts, how="diagonal_relaxed")
