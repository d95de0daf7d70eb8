"""Figures 2 and 3: the patterns of triggers, and what removing one of their tokens changes."""

from functools import partial

import polars as pl

from ff_memories.config import Settings
from ff_memories.figures import controls, paper
from ff_memories.figures.charts import EDGES, Looks, lines, stack_chart, stacked
from ff_memories.figures.context import Drawing, Drawn, FigureContext, Frames
from ff_memories.figures.marks import INTERVAL, both_ends, counted, extremes, percent, share_axis
from ff_memories.figures.theme import LABEL_COLOURS, MUTATION_COLOURS
from ff_memories.judge import measures as general_measures
from ff_memories.judge.register import register
from ff_memories.judge.statistics import average, between, by_layer
from ff_memories.paper.keys import measures
from ff_memories.tables.annotation import marks, preferred

LABEL_NAMES = {"shallow": "shallow", "both": "shallow + semantic", "semantic": "semantic", "none": "not covered"}
BULK = 0.05  # how far keys near zero may move a mean before Figure 3's axis ignores it
MUTATION_LOOKS: Looks = {"first": ([4, 2], "square"), "last": ([1, 0], "circle"), "random": ([1.5, 1.5], "triangle-up")}


def patterns(tables: Frames, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 2: share of trigger examples per layer and label, with the names of the ``annotators``.

    Uses people's labels if there are any, and the automatic proxy's otherwise.
    """
    labels = preferred(tables["pattern_labels"])
    annotators = ", ".join(labels["annotator"].unique().sort())
    frame = stacked(measures.pattern_shares(labels, settings.seed), "label", measures.LABELS)
    return frame.with_columns(pl.lit(annotators, dtype=pl.String).alias("annotators"))


def patterns_chart(frame: pl.DataFrame, context: FigureContext) -> Drawn:
    """Figure 2: stacked bars, which say whose labels they are."""
    who = marks(frame["annotators"][0].split(", ")) if frame.height else []
    whose = f"labels: {', '.join(who).lower() or 'people'}" if frame.height else ""
    return stack_chart(frame, context, "trigger examples", LABEL_NAMES, LABEL_COLOURS, f"{EDGES}, over keys", whose)


def patterns_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 2: the purely shallow and purely semantic shares of the lower layers and of the upper (K9)."""
    claim = next(claim for claim in register() if claim.check == "keys.shallow_then_semantic")
    halves = [between(claim.parameters[part], context.layers) for part in ("lower", "upper")]
    shares = {kind: by_layer(frame.filter(pl.col("series") == kind), "mean") for kind in ("shallow", "semantic")}
    ends = {kind: [average(shares[kind], layers) for layers in halves] for kind in shares}
    if any(end is None for pair in ends.values() for end in pair):
        covered = frame.filter(pl.col("series") != "none").group_by("layer").agg(pl.col("mean").sum().clip(0, 1))
        return f"Share of triggers with a pattern: {extremes(covered, 'mean')}"
    lower, upper = ([percent(ends[kind][i] or 0.0) for kind in ends] for i in (0, 1))
    return f"Lower layers: {lower[0]} shallow, {lower[1]} semantic; upper: {upper[0]} and {upper[1]}"


def mutations(tables: Frames, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 3: mean relative change of the coefficient per layer and removed token, over keys."""
    near_zero = general_measures.NEAR_ZERO[settings.precision]
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


def mutations_chart(frame: pl.DataFrame, context: FigureContext) -> Drawn:
    """Figure 3: a line for each removed token."""
    beyond = beyond_the_bulk(frame)
    limits = [-1.0, 0.0] if frame.is_empty() else None if beyond.is_empty() else bulk_axis(frame, beyond)
    y = share_axis("mean", ["change in", "memory coefficient"], limits)
    notes = [counted(frame, context, "keys"), f"bars: {INTERVAL} over keys", "ticks: medians", *off_axis(beyond)]
    notes += controls.untrained(frame, same_sample=False)
    theirs = paper.by_layer(context, MUTATION_COLOURS)
    marks = [
        *theirs.behind,
        *controls.by_series(frame, context, "mutation", MUTATION_COLOURS),
        *lines(frame, context, "mutation", MUTATION_LOOKS, MUTATION_COLOURS, y),
        *theirs.above,
    ]
    return Drawn(marks, notes)


def mutations_headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 3: which token's removal changes coefficients most, by medians, which keys near zero do not distort."""
    most = frame.group_by("mutation").agg(pl.col("median").abs().mean()).sort("median", "mutation")["mutation"][-1]
    token = "a random" if most == "random" else f"the {most}"
    shares = both_ends(frame.filter(pl.col("mutation") == most), "mean", partial(percent, signed=True))
    return f"Removing {token} token matters most: {shares}"


DRAWINGS = {
    "figure2": Drawing(patterns, patterns_chart, patterns_headline),
    "figure3": Drawing(mutations, mutations_chart, mutations_headline),
}
