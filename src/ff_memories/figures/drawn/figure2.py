"""Figure 2: pattern types among the keys' triggers, by layer."""

import altair as alt
import polars as pl

from ff_memories.claims import measures
from ff_memories.claims.layers import between
from ff_memories.claims.register import register
from ff_memories.claims.statistics import average, by_layer
from ff_memories.config import Settings
from ff_memories.figures.context import FigureContext, Tables
from ff_memories.figures.parts import controls, overlay
from ff_memories.figures.parts.marks import EDGES, counted, finish, stacked, stacks, tag
from ff_memories.figures.parts.phrases import extremes, percent
from ff_memories.figures.registry import Figure
from ff_memories.figures.theme import BLUE, GREEN, LIGHT_GREY, ORANGE
from ff_memories.tables.annotation import marks, preferred

FIGURE = Figure(
    section="3.2",
    place=2,
    caption="Pattern types among the keys' top trigger examples, by layer: shallow, semantic, both or none.",
    tables=("pattern_labels",),
    untrained="mean",
    address="?layer={layer}&label={series}",
    keys="?label=any",
    hatched=True,
    paper={
        "stated": ({"series": "covered", "named": "covered", "layers": (1, 16), "range": (0.65, 0.8)},),
    },
)
LABEL_NAMES = {"shallow": "shallow", "both": "shallow + semantic", "semantic": "semantic", "none": "not covered"}
LABEL_COLOURS = [BLUE, GREEN, ORANGE, LIGHT_GREY]


def data(tables: Tables, settings: Settings, context: FigureContext) -> pl.DataFrame:
    """Figure 2: share of trigger examples per layer and label, with the names of the ``annotators``.

    Uses people's labels if there are any, and the automatic proxy's otherwise.
    """
    labels = preferred(tables["pattern_labels"])
    annotators = ", ".join(labels["annotator"].unique().sort())
    frame = stacked(measures.pattern_shares(labels, settings.seed), "label", measures.LABELS)
    return frame.with_columns(pl.lit(annotators, dtype=pl.String).alias("annotators"))


def chart(frame: pl.DataFrame, context: FigureContext) -> alt.LayerChart:
    """Figure 2: stacked bars."""
    who = marks(frame["annotators"][0].split(", ")) if frame.height else []
    whose = f"labels: {', '.join(who).lower() or 'people'}"
    notes = [counted(frame, context, "trigger examples"), f"{EDGES}, over keys", *controls.untrained(frame, own=False)]
    theirs = overlay.by_layer(context, covered=True)
    shown = stacks(frame, context, "trigger examples", LABEL_NAMES, LABEL_COLOURS)
    said = tag(whose) if frame.height else []
    return finish(
        theirs.behind + shown + controls.edges(frame, context) + theirs.above + said, context, frame, notes, headline
    )


def headline(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 2: how purely shallow and purely semantic shares change from lower to upper layers (K9)."""
    claim = next(claim for claim in register() if claim.check == "patterns.shallow_then_semantic")
    halves = [between(claim.parameters[part], context.layers) for part in ("lower", "upper")]
    shares = {kind: by_layer(frame.filter(pl.col("series") == kind), "mean") for kind in ("shallow", "semantic")}
    ends = {kind: [average(shares[kind], layers) for layers in halves] for kind in shares}
    if any(end is None for pair in ends.values() for end in pair):
        covered = frame.filter(pl.col("series") != "none").group_by("layer").agg(pl.col("mean").sum().clip(0, 1))
        return f"Share of triggers with a pattern: {extremes(covered, 'mean')}"
    return "From lower to upper layers, " + ", ".join(
        f"{what} {_goes(*(percent(end) for end in ends[kind]))}"  # type: ignore[arg-type]  # none is missing
        for kind, what in (("shallow", "shallow patterns"), ("semantic", "semantic ones"))
    )


def _goes(below: str, above: str) -> str:
    """Return how a share changes from lower to upper layers: ``fall from 61 % to 51 %``."""
    if below == above:
        return f"stay at {below}"
    number = lambda text: float(text.split("\u00a0")[0])
    return f"{'rise' if number(above) > number(below) else 'fall'} from {below} to {above}"
