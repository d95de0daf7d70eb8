"""E3, section 3.2, Figure 3: check how removing a trigger's token changes the memory coefficient (K1 to K5)."""

import numpy as np
import polars as pl
from scipy.stats import trim_mean

from ff_memories.base.bootstrap import ends, resamples
from ff_memories.claims.evidence import Evidence
from ff_memories.claims.layers import between, tally
from ff_memories.claims.measurement import Measurement
from ff_memories.claims.measures import TRIMMED, key_changes, near_zero_keys
from ff_memories.claims.numbers import measured
from ff_memories.claims.statistics import (
    average,
    by_layer,
    percent,
    rank_correlation,
    rank_correlations,
    within_groups,
)


def weakens_more(
    evidence: Evidence, *, stronger: str, weaker: str, layers_needed: int, ties: bool = False
) -> Measurement:
    """K1, K2, K3: one mutation lowers the mean coefficient more than another, in enough of 16 layers.

    Measured over the keys that have both mutations, as a paired difference.
    """
    keys = key_changes(evidence.table("mutations"), evidence.mean)
    sides = (
        keys.filter(pl.col("mutation") == m).select("layer", "key", pl.col("change").alias(side))
        for m, side in ((stronger, "stronger"), (weaker, "weaker"))
    )
    paired = next(sides).join(next(sides), on=["layer", "key"]).sort("layer", "key")
    if paired.is_empty():
        return Measurement(reason="no key has mutated triggers")
    margins = by_layer(
        paired.group_by("layer").agg((pl.col("stronger") - pl.col("weaker")).mean().alias("margin")).sort("layer"),
        "margin",
    )
    ok, text = tally(
        {layer: m < 0 or (ties and m == 0) for layer, m in margins.items()}, evidence.layers, layers_needed
    )
    differences = (paired["stronger"] - paired["weaker"]).to_numpy()
    small = near_zero_keys(evidence.table("mutations"), evidence.near_zero)
    reason = f"{text}; median {measured(float(np.median(differences)), 'points')}"
    reason += f", trimmed mean {measured(float(trim_mean(differences, TRIMMED)), 'points')}"
    reason += f"; keys with coefficients near zero: {len(small)}" if len(small) else ""
    draws = resamples(differences, evidence.seed)
    return Measurement(float(differences.mean()), *ends(draws), n=len(differences), ok=ok, reason=reason, draws=draws)


def last_token_fades(evidence: Evidence, *, lower: list[int], upper: list[int], correlation: float) -> Measurement:
    """K4: removing the last token changes the coefficient less in the upper layers, and less with each layer."""
    keys = key_changes(evidence.table("mutations"), evidence.mean).filter(pl.col("mutation") == "last")
    changes = by_layer(keys.group_by("layer").agg(pl.col("change").mean()).sort("layer"), "change")
    sizes = {layer: abs(change) for layer, change in changes.items()}
    below, above = (average(sizes, between(bounds, evidence.layers)) for bounds in (lower, upper))
    rho = rank_correlation(list(changes), list(changes.values()))
    if rho is None or below is None or above is None:
        return Measurement(n=len(changes), reason="too few layers with mutated triggers")
    again = within_groups(keys, "change", evidence.seed)
    draws = rank_correlations(list(changes), np.stack([again[layer] for layer in changes], axis=1))
    return Measurement(
        rho,
        *ends(draws),
        n=len(keys),
        ok=above < below and rho > correlation,
        reason=f"mean size of the change {percent(below)} in the lower layers, {percent(above)} in the upper",
        draws=draws,
    )


def first_layer_loss(evidence: Evidence, *, below: float) -> Measurement:
    """K5: the mean change after removing the last token in the first layer."""
    keys = key_changes(evidence.table("mutations"), evidence.mean)
    first = keys.filter((pl.col("mutation") == "last") & (pl.col("layer") == 1))["change"].to_numpy()
    if not len(first):
        return Measurement(reason="no mutated trigger in the first layer")
    mean, draws = float(first.mean()), resamples(first, evidence.seed)
    return Measurement(mean, *ends(draws), n=len(first), ok=mean < below, draws=draws)
