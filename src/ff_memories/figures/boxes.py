"""Figures 5, 7 and 10, and our own of the table `projection_seeds`: quartiles of something, by layer, as boxes."""

from collections.abc import Sequence

import altair as alt
import polars as pl

from ff_memories.figures import beside, controls, overlay
from ff_memories.figures.context import FigureContext, Headline
from ff_memories.figures.links import linked
from ff_memories.figures.marks import SEEN_THROUGH, finish, layer_axis, source, thin, tooltips
from ff_memories.figures.theme import BLACK, BLUE, INK, LIGHT_BLUE

BOXES = "boxes: quartiles; whiskers: within 1.5 box lengths"


def boxes(frame: pl.DataFrame, context: FigureContext, y: alt.Y) -> list[alt.Chart]:
    """Return one box per layer from its quartiles: ``layer``, ``low``, ``q1``, ``median``, ``q3``, ``high``.

    ``y`` is the axis of ``low``. Marks beyond the axis's domain are clipped.
    """
    base = alt.Chart(source(linked(frame, context.figure))).encode(x=layer_axis(context))
    return [
        base.mark_rule(color=INK, strokeWidth=thin(context), clip=True).encode(y=y, y2="high:Q"),
        base.mark_bar(
            color=LIGHT_BLUE, stroke=BLUE, strokeWidth=thin(context), fillOpacity=SEEN_THROUGH, clip=True
        ).encode(y="q1:Q", y2="q3:Q", tooltip=tooltips(frame), href="href:N"),
        base.mark_tick(color=BLACK, thickness=1.4, width={"band": 1}, clip=True).encode(y="median:Q"),
    ]


def box_chart(
    frame: pl.DataFrame,
    context: FigureContext,
    y: alt.Y,
    notes: list[str],
    headline: Headline,
    scale: float | None = 1,
    behind: Sequence[alt.Chart] = (),
    above: Sequence[alt.Chart] = (),
) -> alt.LayerChart:
    """Return boxes between the paper's bands and the lines of untrained models.

    Args:
        scale: a factor that converts the paper's values to the axis's unit; ``None``: without them.
        behind: further marks below the boxes.
        above: further marks over all others.
    """
    theirs = overlay.Overlay([], []) if scale is None else overlay.by_layer(context, scale=scale)
    marks = [
        *theirs.behind,
        *behind,
        *boxes(frame, context, y),
        *controls.by_layer(frame, context),
        *beside.by_layer(frame, "median", context),
        *theirs.above,
        *above,
    ]
    notes = [*notes, *controls.untrained(frame), *beside.note(frame, "median")]
    return finish(marks, context, frame, notes, headline)
