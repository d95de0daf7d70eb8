"""What a figure is drawn by: its measure, chart and headline, and the run's size, scope and options."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import altair as alt
import polars as pl

from ff_memories.config import Settings
from ff_memories.config.sections import FigureOptions
from ff_memories.figures.registry import DRAWN
from ff_memories.figures.theme import COLUMN_WIDTH, HEIGHT, TEXT_WIDTH
from ff_memories.tables import Frames as Frames


@dataclass(frozen=True)
class FigureContext:
    """One figure of one run: L ``layers``, d_m ``keys`` (with both signs still one), V ``vocab``, and whose, ``scope``.

    ``target``: the token, ``next`` or ``last``, that values are compared with.
    ``active``: coefficients can be exactly zero, as with ReLU.
    """

    figure: str
    layers: int
    keys: int
    vocab: int
    scope: str
    options: FigureOptions
    target: str = "next"
    active: bool = True

    @property
    def width(self) -> int:
        return self.options.width or (TEXT_WIDTH if DRAWN[self.figure].wide else COLUMN_WIDTH)

    @property
    def height(self) -> int:
        return self.options.height or HEIGHT

    @property
    def bins(self) -> int:
        return self.options.bins or 9


class Drawn(NamedTuple):
    """What is drawn of a frame: the layers on one pair of axes, and the notes under the headline.

    ``height``: of the axes in points, if the figure needs more than its own.
    """

    layers: list[alt.Chart]
    notes: list[str]
    height: int = 0


Chart = Callable[[pl.DataFrame, FigureContext], Drawn]
Headline = Callable[[pl.DataFrame, FigureContext], str]  # what a figure shows in this run, in one sentence
Measure = Callable[[Frames, Settings, FigureContext], pl.DataFrame]  # a figure's frame


@dataclass(frozen=True)
class Drawing:
    """How a figure is drawn: its frame from tables, its marks from the frame, and what it shows.

    ``of_a_model``: another model's frame beside the run's; ``None``: as the run's own is measured.
    """

    data: Measure
    chart: Chart
    headline: Headline
    of_a_model: Callable[[pl.DataFrame, Frames, Settings, FigureContext], pl.DataFrame] | None = None
