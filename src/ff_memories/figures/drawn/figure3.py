"""Figure 3: how memory coefficients change after removing a token, by layer."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.config import Settings
from ff_memories.figures.context import FigureContext, Tables
from ff_memories.figures.parts import controls, overlay
from ff_memories.figures.parts.links import linked
from ff_memories.figures.parts.marks import INTERVAL, counted, finish, layer_axis, share_axis, source, tooltips
from ff_memories.figures.parts.phrases import both_ends
from ff_memories.figures.registry import Figure
from ff_memories.figures.theme import BLACK, BLUE, ORANGE

FIGURE = Figure(
    section="3.2",
    place=1,
    caption="Change in a key's memory coefficient after removing one token from its trigger examples: the "
    "first, the last, or a random one.",
    tables=("mutations",),
    untrained="mean",
    sections=("mutations", "extraction"),
    address="?layer={layer}&mutated=1&sort={mutation}",
    keys="?mutated=1",
    paper={
        "read off the figure": (
            {"series": "first", "layers": (1, 16), "range": (-0.15, -0.1)},
            {"series": "random", "layers": (1, 16), "range": (-0.2, -0.15)},
            {"series": "last", "layers": (1, 1), "range": (-0.7, -0.65)},
            {"series": "last", "layers": (16, 16), "value": -0.2},
        ),
    },
)
MUTATION_COLOURS = dict(zip(measures.MUTATIONS, [BLUE, ORANGE, BLACK], strict=True))  # as in the paper, for print
BULK = 0.05  # how far keys near zero may move a mean before Figure 3's axis ignores it


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 3: mean relative change of the coefficient per layer and removed token, over keys."""
    near_zero = measures.NEAR_ZERO[settings.precision]
    frame = measures.mutation_changes(tables["mutations"], settings.mutations.mean, settings.seed, near_zero)
    return frame.with_columns(pl.col("mutation").cast(pl.String))


def beyond_the_bulk(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows whose mean keys near zero move by more than ``BULK``."""
    return frame.filter((pl.col("near_zero") > 0) & ((pl.col("mean") - pl.col("others")).abs() > BULK))


def bulk_axis(frame: pl.DataFrame, beyond: pl.DataFrame) -> list[float]:
    """Return the axis limits that fit all other rows with their intervals, and all medians."""
    rest = frame.join(beyond, on=["layer", "mutation"], how="anti")
    shown = [0.0, *rest["low"].to_list(), *rest["high"].to_list(), *frame["median"].to_list()]
    room = 0.05 * (max(shown) - min(shown))
    return [min(shown) - room, max(shown) + room]


def off_axis(beyond: pl.DataFrame) -> list[str]:
    """Return a note that lists the means beyond the axis and says why, if there are any."""
    if beyond.is_empty():
        return []
    layers = ", ".join(map(str, beyond["layer"].unique().sort()))
    most = max(beyond["mean"].to_list(), key=abs)
    why = "from keys with coefficients near zero"
    return [f"beyond the axis: means of layers {layers} (up to {100 * most:+,.0f}\u00a0%), {why}"]


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 3: a line for each removed token, distinguished by colour, lightness, dash and shape."""
    names = list(measures.MUTATIONS)
    colours = alt.Scale(domain=names, range=list(MUTATION_COLOURS.values()))
    colour = alt.Color("mutation:N", title=None, scale=colours)
    stroke = alt.Stroke("mutation:N", legend=None, scale=colours)
    shapes = alt.Scale(domain=names, range=["square", "circle", "triangle-up"])
    shape = alt.Shape("mutation:N", title=None, scale=shapes)
    dash = alt.StrokeDash("mutation:N", legend=None, scale=alt.Scale(domain=names, range=[[4, 2], [1, 0], [1.5, 1.5]]))
    beyond = beyond_the_bulk(frame)
    y = share_axis("mean", ["change in", "memory coefficient"], None if beyond.is_empty() else bulk_axis(frame, beyond))
    if frame.is_empty():
        y = share_axis("mean", ["change in", "memory coefficient"], [-1, 0])
    base = alt.Chart(source(linked(frame, context.figure))).encode(x=layer_axis(context))
    lines = [
        base.mark_line(strokeWidth=1.2, clip=True).encode(y=y, stroke=stroke, strokeDash=dash),
        base.mark_rule(strokeWidth=0.8, clip=True).encode(y="low:Q", y2="high:Q", stroke=stroke),
        base.mark_point(shape="stroke", size=30, strokeWidth=0.9, opacity=1, clip=True).encode(
            y="median:Q", stroke=stroke
        ),
        base.mark_point(filled=True, size=18, opacity=1, clip=True).encode(
            y="mean:Q", color=colour, shape=shape, tooltip=tooltips(frame), href="href:N"
        ),
    ]
    notes = [counted(frame, context, "keys"), f"bars: {INTERVAL} over keys", "ticks: medians", *off_axis(beyond)]
    notes += controls.untrained(frame, own=False)
    untrained = controls.by_series(frame, context, "mutation", MUTATION_COLOURS)
    theirs = overlay.by_layer(context, MUTATION_COLOURS)
    return finish(theirs.behind + untrained + lines + theirs.above, context, frame, notes, headline)


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 3: which token's removal changes coefficients most, by medians, which keys near zero do not distort."""
    most = frame.group_by("mutation").agg(pl.col("median").abs().mean()).sort("median", "mutation")["mutation"][-1]
    token = "a random" if most == "random" else f"the {most}"
    shares = both_ends(frame.filter(pl.col("mutation") == most), "mean", signed=True)
    return f"Removing {token} token matters most: {shares}"
