"""Figure 7: the share of active memories, by layer."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.config import Settings
from ff_memories.figures.context import FigureContext, Tables
from ff_memories.figures.parts import controls, overlay
from ff_memories.figures.parts.marks import box_note, boxes, counted, finish, share_axis
from ff_memories.figures.parts.phrases import HALF, extremes, numbered
from ff_memories.figures.registry import Figure

FIGURE = Figure(
    section="5.1",
    place=2,
    caption="Share of a layer's memories that are active, that is, have a coefficient above zero.",
    caption_effective="Effective number of memories of a layer, (Σe)² / Σe² with e = (m‖v‖)². A share of active "
    "memories is not defined for this model: none of its coefficients is exactly zero.",
    tables=("composition",),
    untrained="median",
    paper={
        "stated": ({"series": "active", "named": "over layers", "layers": (1, 16), "range": (0.1, 0.5)},),
        "read off the figure": (
            {"series": "median", "named": "median", "layers": (1, 5), "range": (0.4, 0.5)},
            {"series": "median", "named": "median", "layers": (10, 10), "range": (0.1, 0.15)},
            {"series": "median", "named": "median", "layers": (11, 16), "range": (0.15, 0.2)},
        ),
    },
)
RANDOM_KEYS = 0.5  # without bias, a key from a symmetric distribution is active for half of all inputs


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 7: quartiles of the share of active memories per layer; of effective ones if no memory is inactive."""
    if not context.active:
        return measures.effective_memories(tables["composition"])
    return measures.active_memories(tables["composition"], context.keys)


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 7: boxes."""
    if not context.active:
        said = ["effective: as many equal ones would add as much", *([] if frame.is_empty() else [box_note()])]
        notes = [counted(frame, context, "examples"), *said, *controls.untrained(frame)]
        shown = boxes(frame, context, alt.Y("low:Q", title="effective memories")) + controls.by_layer(frame, context)
        return finish(shown, context, frame, notes, headline)
    notes = [
        counted(frame, context, "examples") + f", {context.keys:,} memories",
        box_note(),
        "dotted: random keys",
        *controls.untrained(frame),
    ]
    theirs = overlay.by_layer(context)
    marks = [
        *theirs.behind,
        *controls.level(RANDOM_KEYS),
        *boxes(frame, context, share_axis("low", "active memories", [0, 1])),
        *controls.by_layer(frame, context),
        *theirs.above,
    ]
    return finish(marks, context, frame, notes, headline)


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 7: what share of memories is active."""
    if not context.active:
        return f"The effective number of memories: median {numbered(frame, 'median')}"
    return f"{_most(frame, 'median', 'memories')} active: median {extremes(frame, 'median')}"


def _most(frame: pl.DataFrame, column: str, what: str) -> str:
    """Return a quantifier for some things, by the range of their shares over layers."""
    values = frame[column].to_numpy()
    if values.max() < HALF:
        return f"A minority of {what} is"
    return f"Most {what} are" if values.min() > HALF else f"In some layers, half or more of the {what} are"
