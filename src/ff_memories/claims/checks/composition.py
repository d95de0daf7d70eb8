"""E8 to E10, section 5.1: check how a layer's active memories compose (K18 to K22)."""

import numpy as np
import polars as pl

from ff_memories.base.draws import ends
from ff_memories.claims.evidence import Evidence
from ff_memories.claims.layers import PAPER, between
from ff_memories.claims.measurement import Limit, Measurement, by_draws, itself
from ff_memories.claims.measures import active_memories, agreeing_cases, effective_memories, zero_agreement
from ff_memories.claims.statistics import (
    Share,
    average,
    by_layer,
    joint_medians,
    lowest_of_joint,
    percent,
    pooled_share,
)

EMPTY = "no examples"


def _active(evidence: Evidence) -> dict[int, float]:
    return by_layer(active_memories(evidence.table("composition"), evidence.keys), "median")


def _active_again(evidence: Evidence) -> np.ndarray:
    """Return resamples (draws, layers) of the median share of active memories."""
    return joint_medians(evidence.table("composition"), "active", evidence.seed) / evidence.keys


def _lowest_again(evidence: Evidence, layers: list[int]) -> np.ndarray:
    """Return resamples (draws,) of the layer with the fewest active memories."""
    again = _active_again(evidence)
    return np.array(layers)[again.argmin(1)].astype(np.float64) if len(again) else np.empty(0)


def _effective(evidence: Evidence) -> dict[int, float]:
    """Return the median effective number of memories by layer; nothing if no table has it."""
    table = evidence.table("composition")
    return by_layer(effective_memories(table), "median") if "effective" in table.columns else {}


def _not_defined(evidence: Evidence, instead: str) -> Measurement:
    """Return a measurement without a number, for models none of whose memories is inactive."""
    why = f"active memories are not defined with {evidence.activation}: no coefficient is exactly zero"
    return Measurement(n=evidence.table("composition").height, reason="; ".join(filter(None, [why, instead])))


def _effective_share(evidence: Evidence) -> str:
    """Return in words the share of effective memories, for a model without inactive ones."""
    if not (shares := {layer: median / evidence.keys for layer, median in _effective(evidence).items()}):
        return ""
    ends_ = f"medians from {percent(min(shares.values()))} to {percent(max(shares.values()))} by layer"
    middle = percent(float(np.median(list(shares.values()))))
    return f"the effective number of memories is {middle} of {evidence.keys:,} ({ends_})"


def _fewest_effective(evidence: Evidence) -> str:
    """Return in words where the effective number of memories is lowest, for a model without inactive ones."""
    if not (medians := _effective(evidence)):
        return ""
    lowest = min(medians, key=lambda layer: (medians[layer], layer))
    return f"the effective number of memories is lowest in layer {lowest}, with a median of {medians[lowest]:.3g}"


def minority_active(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K18: the median share of active memories, as the median over layers, is within a range."""
    if not evidence.inactive:
        return _not_defined(evidence, _effective_share(evidence))
    medians = _active(evidence)
    if not medians:
        return Measurement(reason=EMPTY)
    middle, draws = float(np.median(list(medians.values()))), np.median(_active_again(evidence), axis=1)
    return Measurement(
        middle,
        *ends(draws),
        n=evidence.table("composition").height,
        units=evidence.table("composition")["example"].n_unique(),
        judged=by_draws(middle, draws, limit),
        reason=f"medians from {percent(min(medians.values()))} to {percent(max(medians.values()))} by layer",
    )


def active_dip(evidence: Evidence, *, bottom: list[int], limit: Limit) -> Measurement:
    """K19: the layer with the fewest active memories is in a range (of the paper's 16 layers)."""
    if not evidence.inactive:
        return _not_defined(evidence, _fewest_effective(evidence))
    medians = _active(evidence)
    below = average(medians, between(bottom, evidence.layers))
    dip = between([int(limit.low or 1), int(limit.high or PAPER)], evidence.layers)
    if not medians or below is None or not dip:
        return Measurement(reason=EMPTY if not medians else "too few layers")
    lowest = min(medians, key=lambda layer: (medians[layer], layer))
    draws = _lowest_again(evidence, list(medians))
    return Measurement(
        lowest,
        *ends(draws),
        n=evidence.table("composition")["example"].n_unique(),
        judged=by_draws(lowest, draws, Limit(min(dip), max(dip))),
        reason=f"{percent(medians[lowest])} there, {percent(below)} in the bottom layers",
    )


def zero_agreement_dominates(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K20: the share of examples without an agreeing memory, in the layer where it is lowest."""
    shares = zero_agreement(evidence.table("composition"), evidence.seed)
    if shares.is_empty():
        return Measurement(reason=EMPTY)
    row = shares.sort("mean", "layer").row(0, named=True)
    zero = evidence.table("composition").select("example", "layer", hit=pl.col("agreeing_memories") == 0)
    found = row["mean"], *lowest_of_joint(zero, evidence.seed)
    return Measurement(*found, row["n"], judged=itself(*found, limit), reason=f"in layer {row['layer']}")


def _agreeing_share(evidence: Evidence, pairs: pl.DataFrame, hit: pl.Expr) -> tuple[pl.DataFrame, Share | None, float]:
    """Return the (example, layer) pairs with an agreeing memory, their share of hits, and the share of all pairs."""
    agreeing = pairs.filter(pl.col("agreeing_memories") > 0)
    base = pooled_share(pairs, hit, "example", evidence.seed)
    return agreeing, pooled_share(agreeing, hit, "example", evidence.seed), base[0] if base else 0.0


def agreeing_stop_words(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K21: the share of stop words among layer predictions that a memory agrees with, compared with all pairs."""
    words = pl.Series(sorted(evidence.stop_words), dtype=pl.UInt32)
    hit = pl.col(evidence.prediction).is_in(words.implode())
    agreeing, share, base = _agreeing_share(evidence, evidence.table("composition"), hit)
    if share is None:
        return Measurement(n=0, reason="no memory ever agrees with its layer")
    reason = f"base rate {percent(base)}{_in_the_text(evidence)}"
    units = agreeing["example"].n_unique()
    return Measurement(*share, n=agreeing.height, units=units, judged=itself(*share, limit), reason=reason)


def _in_the_text(evidence: Evidence) -> str:
    """Return the same two shares for the next tokens in the text instead of the layers' predictions."""
    if "examples" not in evidence.tables:
        return ""
    cases = agreeing_cases(evidence.table("composition"), evidence.table("examples"), evidence.stop_words)
    share, base = (part.select(pl.col("next_is_stop_word").mean()).item() for part in (cases.filter("agrees"), cases))
    if share is None or base is None:
        return ""
    return f"; next tokens in the text: {percent(share)}, base rate {percent(base)}"


def agreeing_short_prefixes(evidence: Evidence, *, shorter_than: int, limit: Limit) -> Measurement:
    """K22: the share of short prefixes where a memory agrees with its layer, compared with all pairs."""
    pairs = evidence.table("composition").join(
        evidence.table("examples").select("example", "position"), on="example", how="inner"
    )
    agreeing, share, base = _agreeing_share(evidence, pairs, pl.col("position") < shorter_than)
    if share is None:
        return Measurement(n=0, reason="no memory ever agrees with its layer")
    judged, units = itself(*share, limit), agreeing["example"].n_unique()
    return Measurement(*share, n=agreeing.height, units=units, judged=judged, reason=f"base rate {percent(base)}")
