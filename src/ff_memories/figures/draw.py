"""Turn tables into a figure's frame, the frame into its chart, and the figures' CSV files into frames again."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import altair as alt
import polars as pl

from ff_memories.base import sections
from ff_memories.config import Settings
from ff_memories.figures import controls
from ff_memories.figures.context import FigureContext, Tables
from ff_memories.figures.registry import DRAWN

_modules = sections.modules("ff_memories.paper.*.figures").values()
DRAWINGS = {name: drawing for module in _modules for name, drawing in module.DRAWINGS.items()}


def data(
    tables: Tables, settings: Settings, context: FigureContext, models: Mapping[str, Tables] | None = None
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
    """Return the chart of a frame from ``data``. Without data, omit the paper's values: they never stand alone."""
    if frame.is_empty():
        context = replace(context, options=context.options.model_copy(update={"paper_values": False}))
    return DRAWINGS[context.figure].chart(frame, context)


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
