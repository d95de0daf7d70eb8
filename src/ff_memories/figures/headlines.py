"""Write each figure's headline: one sentence on what it shows in this run, derived from the frame it draws."""

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from ff_memories.claims.layers import between
from ff_memories.claims.register import register
from ff_memories.claims.statistics import average, by_layer
from ff_memories.figures.context import FigureContext

NO_DATA = "No data"
SAME = 0.1  # relative: a median rank that is lower by less does not count as better
HALF = 0.5


def headline(name: str, frame: pl.DataFrame, context: FigureContext) -> str:
    """Return a figure's headline, derived from the frame that ``draw.data`` returns for it."""
    return NO_DATA if frame.is_empty() else HEADLINES[name](frame, context)


def percent(share: float, signed: bool = False) -> str:
    """Return a share in percent, with one decimal below ten if it has one: ``2.4 %``, ``81 %``, ``−79 %``."""
    value = round(100 * share, 1 if abs(share) < 0.0995 else 0) + 0.0  # no negative zero
    return f"{value:{'+' if signed and value else ''}.4g}\u00a0%".replace("-", "\u2212")


def in_layer(row: Mapping[str, Any], column: str, signed: bool = False) -> str:
    """Return a value with its layer: ``81 % in layer 16``."""
    return f"{percent(row[column], signed)}\u00a0in\u00a0layer\u00a0{row['layer']}"


def first_and_last(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of the frame's lowest and highest layer; one row if there is only one layer."""
    ends = frame.filter(pl.col("layer").is_in([frame["layer"].min(), frame["layer"].max()]))
    return ends.sort("layer").to_dicts()


def both_ends(frame: pl.DataFrame, column: str, signed: bool = False) -> str:
    """Return a column's values in the lowest and in the highest layer."""
    return ", ".join(in_layer(row, column, signed) for row in first_and_last(frame))


def extremes(frame: pl.DataFrame, column: str) -> str:
    """Return a column's range over layers, with the layers of its minimum and maximum."""
    low, high = frame.sort(column, "layer").row(0, named=True), frame.sort(column, "layer").row(-1, named=True)
    if low["layer"] == high["layer"]:
        return in_layer(low, column)
    return f"{in_layer(low, column)} to {in_layer(high, column)}"


def numbered(frame: pl.DataFrame, column: str) -> str:
    """Return the range over layers of a column of numbers."""
    rows = frame.sort(column, "layer").to_dicts()
    ends = rows[:1] if rows[0]["layer"] == rows[-1]["layer"] else [rows[0], rows[-1]]
    return " to ".join(f"{row[column]:,.3g}\u00a0in\u00a0layer\u00a0{row['layer']}" for row in ends)


def patterns(frame: pl.DataFrame, context: FigureContext) -> str:
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


def mutations(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 3: which token's removal changes coefficients most, by medians, which keys near zero do not distort."""
    most = frame.group_by("mutation").agg(pl.col("median").abs().mean()).sort("median", "mutation")["mutation"][-1]
    token = "a random" if most == "random" else f"the {most}"
    shares = both_ends(frame.filter(pl.col("mutation") == most), "mean", signed=True)
    return f"Removing {token} token matters most: {shares}"


def agreement(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 4: the layer whose values agree most with their top triggers, and whether that is above chance."""
    peak = frame.sort("mean", "layer", descending=[True, False]).row(0, named=True)
    if not peak["mean"]:
        return f"No value predicts its top trigger's {context.target} token"
    said = (
        f"Values predict the {context.target} token most often in layer\u00a0{peak['layer']}: {percent(peak['mean'])}"
    )
    if context.layers == 1:
        said = f"Values predict the {context.target} token in {percent(peak['mean'])} of cases"
    if peak["chance"] is None:
        return said
    rank = "above" if peak["mean"] > peak["chance"] else "not above"
    return f"{said}, {rank} chance ({percent(peak['chance'])})"


def ranks(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 5: whether the target token ranks better in upper layers."""
    ends = first_and_last(frame)
    size = context.vocab or 1
    said = [
        f"{percent(row['median'] / size) if context.vocab else format(row['median'], ',.0f')} "
        f"in layer\u00a0{row['layer']}"
        for row in ends
    ]
    unit = " of the vocabulary" if context.vocab else ""
    said[0] = said[0].replace(" in layer", f"{unit} in layer", 1)
    where = f"median rank {', '.join(said)}"
    if len(ends) == 1:
        return f"For the {context.target} token, {where}"
    higher = ends[-1]["median"] < (1 - SAME) * ends[0]["median"]
    return f"The {context.target} token ranks {'higher' if higher else 'no higher'} in upper layers: {where}"


def probabilities(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 6: whether values above the lowest probability bin agree more often than those in it."""
    known = frame.drop_nulls("mean").sort("bin")
    lowest, others = known.row(0, named=True), known[1:]
    if others.is_empty():
        return f"Values agree in {percent(lowest['mean'])} of cases"
    above = float((others["mean"] * others["n"]).sum()) / int(others["n"].sum())
    said = "more often" if above > lowest["mean"] else "no more often"
    return (
        f"Values with a top probability above {lowest['bin']:.2g} agree {said}: "
        f"{percent(above)}, against {percent(lowest['mean'])} for the rest"
    )


def active(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 7: what share of memories is active."""
    if not context.active:
        return f"The effective number of memories: median {numbered(frame, 'median')}"
    return f"{_most(frame, 'median', 'memories')} active: median {extremes(frame, 'median')}"


def zero(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 8: how often no memory makes its layer's prediction."""
    low, high = frame["mean"].to_numpy().min(), frame["mean"].to_numpy().max()
    where = "Usually" if low > HALF else "In some layers, usually" if high > HALF else "Sometimes"
    if high == 0:
        return "There is always a memory that makes its layer's prediction"
    return f"{where} no memory makes its layer's prediction: {extremes(frame, 'mean')}"


def residual(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 9: whether the residual predicts the output more often in upper layers, with the untrained share."""
    ends = first_and_last(frame)
    last = ends[-1]
    bare = last.get("untrained")
    without = "" if bare is None else f" (untrained:\u00a0{percent(bare)})"
    if len(ends) == 1:
        share = percent(last["mean"])
        return f"In layer\u00a0{last['layer']}, the residual predicts the output in {share} of cases{without}"
    said = "more" if last["mean"] > ends[0]["mean"] else "no more"
    return f"The residual predicts the output {said} often in upper layers: {both_ends(frame, 'mean')}{without}"


def confidence(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 10: whether the residual's probability of the output grows."""
    ends = first_and_last(frame)
    said = "grows" if ends[-1]["median"] > ends[0]["median"] else "does not grow"
    if len(ends) == 1:
        return f"The residual's median probability of the output: {both_ends(frame, 'median')}"
    return f"The residual's probability of the output {said}: median {both_ends(frame, 'median')}"


def kinds(frame: pl.DataFrame, context: FigureContext) -> str:
    """Figure 11: which prediction most outputs follow, over all layers."""
    says = {
        "residual": "the residual only",
        "agreement": "both residual and feed-forward",
        "composition": "neither residual nor feed-forward",
        "ffn": "the feed-forward only",
    }
    total = frame.group_by("series").agg(pl.col("mean").mean()).sort("mean", "series")
    top = total.row(-1, named=True)["series"]
    often = "Most outputs follow" if total["mean"][-1] > HALF else "The most frequent case: outputs follow"
    return f"{often} {says[top]}: {extremes(frame.filter(pl.col('series') == top), 'mean')}"


def choices(frame: pl.DataFrame, context: FigureContext) -> str:
    """Our own figure of analysis choices: how many verdicts flip under any of them."""
    claims, flips = frame["claim"].n_unique(), frame.filter(pl.col("flip") != "")["claim"].n_unique()
    verb = "flips" if flips == 1 else "flip"
    return f"{flips} of {claims} verdicts {verb} under some choice" if flips else "No verdict flips under any choice"


def projections(frame: pl.DataFrame, context: FigureContext) -> str:
    """Our own figure of random projections: in how many layers the trained median lies outside their whiskers."""
    known = frame.drop_nulls("trained")
    outside = known.filter(~pl.col("trained").is_between("low", "high")).height
    layers = f"{outside} of {known.height} layers"
    return f"The trained softmax's median lies outside the random projections' range in {layers}"


def _most(frame: pl.DataFrame, column: str, what: str) -> str:
    """Return a quantifier for some things, by the range of their shares over layers."""
    values = frame[column].to_numpy()
    if values.max() < HALF:
        return f"A minority of {what} is"
    return f"Most {what} are" if values.min() > HALF else f"In some layers, half or more of the {what} are"


HEADLINES: dict[str, Callable[[pl.DataFrame, FigureContext], str]] = {
    "figure2": patterns,
    "figure3": mutations,
    "figure4": agreement,
    "figure5": ranks,
    "figure6": probabilities,
    "figure7": active,
    "figure8": zero,
    "figure9": residual,
    "figure10": confidence,
    "figure11": kinds,
    "sensitivity": choices,
    "projection_seeds": projections,
}
