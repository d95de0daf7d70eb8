"""E3, section 3.2, Figure 3: check how removing a trigger's token changes the memory coefficient (K1 to K5)."""

import numpy as np
import polars as pl
from scipy.stats import trim_mean

from ff_memories.base.draws import ends, resamples
from ff_memories.claims.evidence import Evidence
from ff_memories.claims.layers import between, in_layers
from ff_memories.claims.measurement import Limit, Measurement, by_draws, is_clear, itself
from ff_memories.claims.measures import TRIMMED, key_changes, near_zero_keys
from ff_memories.claims.numbers import measured
from ff_memories.claims.statistics import (
    average,
    by_layer,
    expanded,
    mean_of,
    percent,
    rank_correlation,
    rank_correlations,
    within_groups,
)


def weakens_more(evidence: Evidence, *, stronger: str, weaker: str, limit: Limit, ties: bool = False) -> Measurement:
    """K1, K2, K3: one mutation lowers the mean coefficient more than another, in so many of 16 layers.

    Measured over the keys that have both mutations, as a paired difference; judged by the number of layers.
    """
    keys = key_changes(evidence.table("mutations"), evidence.mean)
    sides = (
        keys.filter(pl.col("mutation") == m).select("layer", "key", pl.col("change").alias(side))
        for m, side in ((stronger, "stronger"), (weaker, "weaker"))
    )
    paired = next(sides).join(next(sides), on=["layer", "key"]).sort("layer", "key")
    if paired.is_empty():
        return Measurement(reason="no key has mutated triggers")
    paired = paired.with_columns(margin=pl.col("stronger") - pl.col("weaker"))
    margins = by_layer(paired.group_by("layer").agg(pl.col("margin").mean()).sort("layer"), "margin")
    weaker_in = lambda margin: (margin < 0) | (ties & (margin == 0))
    keys_in = dict(paired.group_by("layer").len().iter_rows())
    again = {
        layer: expanded(drawn, margins[layer], keys_in[layer])
        for layer, drawn in within_groups(paired, "margin", evidence.seed).items()
        if keys_in[layer] > 1  # one key has no spread, so its layer is sure on neither side
    }
    differences = paired["margin"].to_numpy()
    draws = resamples(differences, evidence.seed)
    small = near_zero_keys(evidence.table("mutations"), evidence.near_zero)
    judged, text = in_layers(
        {layer: bool(weaker_in(np.array(m))) for layer, m in margins.items()},
        {layer: weaker_in(drawn) for layer, drawn in again.items()},
        evidence.layers,
        limit,
        is_clear(draws, below=True),
    )
    reason = f"{text}; median {measured(float(np.median(differences)), 'points')}"
    reason += f", trimmed mean {measured(float(trim_mean(differences, TRIMMED)), 'points')}"
    reason += f"; keys with coefficients near zero: {len(small)}" if len(small) else ""
    return Measurement(
        float(differences.mean()), *ends(draws), n=len(differences), judged=judged, reason=reason, draws=draws
    )


def last_token_fades(evidence: Evidence, *, lower: list[int], upper: list[int], limit: Limit) -> Measurement:
    """K4: removing the last token changes the coefficient less in the upper layers.

    Measured as a rank correlation over layers; judged by the mean size of the change, lower layers less upper.
    """
    keys = key_changes(evidence.table("mutations"), evidence.mean).filter(pl.col("mutation") == "last")
    changes = by_layer(keys.group_by("layer").agg(pl.col("change").mean()).sort("layer"), "change")
    sizes = {layer: abs(change) for layer, change in changes.items()}
    below, above = (average(sizes, between(bounds, evidence.layers)) for bounds in (lower, upper))
    rho = rank_correlation(list(changes), list(changes.values()))
    if rho is None or below is None or above is None:
        return Measurement(n=len(changes), reason="too few layers with mutated triggers")
    again = within_groups(keys, "change", evidence.seed)
    draws = rank_correlations(list(changes), np.stack([again[layer] for layer in changes], axis=1))
    drawn = {layer: np.abs(own) for layer, own in again.items()}
    under, over = (mean_of(drawn, between(bounds, evidence.layers)) for bounds in (lower, upper))
    return Measurement(
        rho,
        *ends(draws),
        n=len(keys),
        judged=by_draws(below - above, under - over, limit),
        reason=f"mean size of the change {percent(below)} in the lower layers, {percent(above)} in the upper",
        draws=draws,
    )


def first_layer_loss(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K5: the mean change after removing the last token in the first layer."""
    keys = key_changes(evidence.table("mutations"), evidence.mean)
    first = keys.filter((pl.col("mutation") == "last") & (pl.col("layer") == 1))["change"].to_numpy()
    if not len(first):
        return Measurement(reason="no mutated trigger in the first layer")
    mean, draws = float(first.mean()), resamples(first, evidence.seed)
    judged = itself(mean, *ends(draws), limit, draws=draws)
    return Measurement(mean, *ends(draws), n=len(first), judged=judged, draws=draws)
