"""What a figure is drawn by: its measure, chart and headline, and the run's size, scope and options."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import altair as alt
import polars as pl

from ff_memories.config import Settings
from ff_memories.config.sections import FigureOptions
from ff_memories.figures.registry import DRAWN, refuse_useless
from ff_memories.figures.theme import COLUMN_WIDTH, HEIGHT, TEXT_WIDTH
from ff_memories.model.info import has_inactive, read_info

DEFAULT_BINS = 9
Tables = dict[str, pl.DataFrame]


@dataclass(frozen=True)
class FigureContext:
    """One figure of one run.

    Attributes:
        figure: its name in ``registry.DRAWN``.
        layers: L, the number of layers; layers are numbered 1..L.
        keys: d_m, memories per layer; one with both signs counts once.
        scope: whose results these are (``model.info``); if not the paper's, the image says so.
        options: the figure's section of the config.
        target: the token that values are compared with, ``next`` (after a trigger) or ``last``.
        vocab: V, the number of token types; ``None`` if unknown.
        active: whether the model has memories that are not active, with a coefficient of exactly zero, as with ReLU.
    """

    figure: str
    layers: int
    keys: int
    scope: str
    options: FigureOptions
    target: str = "next"
    vocab: int | None = None
    active: bool = True

    def __post_init__(self) -> None:
        refuse_useless(self.figure, vars(self.options))

    @property
    def width(self) -> int:
        return self.options.width or (TEXT_WIDTH if DRAWN[self.figure].wide else COLUMN_WIDTH)

    @property
    def height(self) -> int:
        return self.options.height or HEIGHT

    @property
    def bins(self) -> int:
        return self.options.bins or DEFAULT_BINS


Headline = Callable[[pl.DataFrame, FigureContext], str]  # what a figure shows in this run, in one sentence
Measure = Callable[[Tables, Settings, FigureContext], pl.DataFrame]  # a figure's frame


@dataclass(frozen=True)
class Drawing:
    """How a figure is drawn: its frame from tables, its chart from the frame, and what it shows.

    ``of_a_model``: another model's frame beside the run's; ``None``: as the run's own is measured.
    """

    data: Measure
    chart: Callable[[pl.DataFrame, FigureContext], alt.LayerChart]
    headline: Headline
    of_a_model: Callable[[pl.DataFrame, Tables, Settings, FigureContext], pl.DataFrame] | None = None


def from_info(figure: str, info: str | Path, options: FigureOptions, target: str = "next") -> FigureContext:
    """Return the context of one figure, given the run's model info. Raises ``UserError`` if the info is invalid."""
    facts = read_info(info)
    return FigureContext(
        figure,
        facts["layers"],
        facts.get("neurons", facts["keys"]),
        facts["scope"],
        options,
        target,
        facts["vocab"],
        has_inactive(facts),
    )
