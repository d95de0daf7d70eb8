"""E4 to E7, section 4: check values' predictions against the tokens after their keys' triggers (K10 to K17)."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from ff_memories.base.draws import ends, resamples
from ff_memories.judge.evidence import Evidence
from ff_memories.judge.measurement import Limit, Measurement, by_draws, is_clear
from ff_memories.judge.statistics import (
    PAPER,
    area_by_chance,
    area_under_curve,
    average,
    between,
    by_layer,
    clustered_shares,
    expanded,
    highest,
    mean_of,
    medians,
    percent,
    pooled_share,
    share_interval,
)
from ff_memories.paper.values.measures import in_random_pairs, over_chance, predictive_values

NEVER = -math.log(0.025)  # the highest mean of a number of cases, at 97.5 %, if there is none
FEWEST = 10  # tokens of the values that agree, to tell them from the others
UNKNOWN = "no value in these layers has a trigger with a known target"


def _rates(evidence: Evidence) -> tuple[pl.DataFrame, np.ndarray]:
    """Return each layer's agreement rate (``layer``, ``mean``, ``n``), and resamples (draws, layers) over tokens.

    Values with one top token agree together or not, so tokens are resampled, with their values in all layers.
    """
    known = evidence.table("values").drop_nulls("agrees")
    rates = known.group_by("layer").agg(mean=pl.col("agrees").mean(), n=pl.len()).sort("layer")
    return rates, clustered_shares(known, "agrees", "top_token", evidence.seed)


def _peak(evidence: Evidence, measured: tuple[pl.DataFrame, np.ndarray], layers: list[int]) -> dict[str, Any] | None:
    """Return the row of ``_rates`` with the highest rate among ``layers`` (the lowest such layer).

    Its interval is of the highest rate, not of a layer chosen in advance. ``pooled``: of all these layers, in words.
    """
    rates, draws = measured
    inside = rates["layer"].is_in(layers)
    if not inside.any():
        return None
    rates, draws = rates.filter(inside), draws[:, inside.to_numpy()]
    low, high = highest(rates["mean"].to_numpy(), rates["n"].to_numpy(), draws)
    peak = rates.sort("mean", "layer", descending=[True, False]).row(0, named=True) | {"low": low, "high": high}
    agree, expected = over_chance(evidence.table("values"), layers)
    pooled = f"all together, {agree:,} of {rates['n'].sum():,} agree, and {expected:.3g} in random pairs"
    return peak | {"pooled": pooled}


def near_zero_below(evidence: Evidence, *, layers: list[int], limit: Limit) -> Measurement:
    """K10: the highest agreement rate of the lower layers is below a limit."""
    peak = _peak(evidence, _rates(evidence), between(layers, evidence.layers))
    if peak is None:
        return Measurement(reason=UNKNOWN)
    estimate, reason = (peak["mean"], peak["low"], peak["high"]), f"in layer {peak['layer']}; {peak['pooled']}"
    return Measurement(*estimate, peak["n"], limit=limit, reason=reason)


def peak_above(evidence: Evidence, *, layers: list[int], limit: Limit) -> Measurement:
    """K11: the highest rate of the upper layers is a few percent."""
    rates = _rates(evidence)
    peak, anywhere = (_peak(evidence, rates, between(b, evidence.layers)) for b in (layers, [1, PAPER]))
    if peak is None or anywhere is None:
        return Measurement(reason=UNKNOWN)
    estimate = peak["mean"], peak["low"], peak["high"]
    reason = f"in layer {peak['layer']}; the highest of all is in layer {anywhere['layer']}; {peak['pooled']}"
    return Measurement(*estimate, peak["n"], limit=limit, reason=reason)


def contrast(evidence: Evidence, *, lower: list[int], upper: list[int], limit: Limit) -> Measurement:
    """K12: the upper layers' mean rate relative to the lower layers'; undecided if the latter is zero."""
    rates, draws = _rates(evidence)
    by, layer_draws = by_layer(rates, "mean"), dict(zip(rates["layer"], draws.T, strict=True))
    below, above = (average(by, between(bounds, evidence.layers)) for bounds in (lower, upper))
    n = int(rates["n"].sum())
    if below is None or above is None:
        return Measurement(n=n, reason=UNKNOWN)
    reason = f"{percent(above)} against {percent(below)}"
    if below == 0:
        return Measurement(n=n, reason=reason, few="the lower layers never agree, so there is no ratio")
    under, over = (mean_of(layer_draws, between(bounds, evidence.layers)) for bounds in (lower, upper))
    ratio = np.divide(over, under, out=np.full(len(under), np.inf), where=under > 0)
    low, high = np.percentile(ratio, [2.5, 97.5], method="inverted_cdf") if len(ratio) else (np.nan, np.nan)
    open_ = np.isinf(high) and not limit.reached(low)
    few = "the lower layers agree so rarely that the ratio has no upper end" if open_ else ""
    return Measurement(above / below, low, high, n=n, limit=limit, reason=reason, few=few, draws=over - under)


def above_chance(evidence: Evidence, *, layers: list[int], limit: Limit) -> Measurement:
    """K13: agreements in the upper layers relative to those of random pairs of a layer's keys and values.

    The paper compares the highest rate of a layer with that of a token drawn uniformly, which stands beside.
    """
    upper = between(layers, evidence.layers)
    rates, draws = measured = _rates(evidence)
    peak = _peak(evidence, measured, upper)
    lower = [layer for layer in range(1, evidence.layers + 1) if layer not in upper]
    (agree, expected), (below, by_chance) = (over_chance(evidence.table("values"), part) for part in (upper, lower))
    if peak is None or not expected:
        return Measurement(reason=UNKNOWN if peak is None else "no value predicts what follows any key of its layer")
    of_layer = dict(zip(rates["layer"], (draws * rates["n"].to_numpy()).T, strict=True))
    resampled = mean_of(of_layer, upper) * sum(layer in of_layer for layer in upper) / expected
    estimate = agree / expected, *(ends(resampled) if agree else (0.0, NEVER / expected))
    others = f"in the other layers {below:,} agree, and {by_chance:.3g} in random pairs"
    uniform = f"the highest rate is {evidence.vocab * peak['mean']:.3g} × that of a random token, the paper's measure"
    n = int(rates.filter(pl.col("layer").is_in(upper))["n"].sum())
    reason = f"{peak['pooled']}; {others}; {uniform}"
    return Measurement(*estimate, n=n, limit=limit, null=1.0, expected=1.0, reason=reason, draws=resampled)


def rank_improves(evidence: Evidence, *, lower: list[int], upper: list[int], limit: Limit) -> Measurement:
    """K14: the target's median rank in the top layers, as a share of the types; judged by the ratio to the lower."""
    values = evidence.table("values").drop_nulls("next_token_rank")
    parts = [values.filter(pl.col("layer").is_in(between(bounds, evidence.layers))) for bounds in (lower, upper)]
    below, above = (part.select(pl.col("next_token_rank").median()).item() for part in parts)
    if below is None or above is None:
        return Measurement(n=values.height, reason=UNKNOWN if values.is_empty() else "too few layers with ranks")
    under, over = (medians(part["next_token_rank"].cast(pl.Float64).to_numpy(), evidence.seed) for part in parts)
    draws, ratios = over - under, np.divide(over, under, out=np.full(len(under), np.nan), where=under > 0)
    reason = f"median rank {above:.6g} against {below:.6g}"
    estimate = above / evidence.vocab, *ends(over / evidence.vocab)
    chance = None if evidence.adaptive else (evidence.vocab - 1) / 2 / evidence.vocab
    if not below:
        return Measurement(*estimate, n=values.height, few="the lower layers' median rank is 0", reason=reason)
    judged = by_draws(above / below, ratios, limit, is_clear(draws, below=True))
    return Measurement(*estimate, n=values.height, judged=judged, expected=chance, reason=reason, draws=draws)


def rises_with_probability(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K15: how well the top probability tells values that agree from others, as the area under the ROC curve.

    Judged by how much more that is than in random pairs of a layer's keys and values: confident values predict frequent
    tokens. The paper shows agreement in bins of the top probability, nearly all of whose values may be in one bin.
    """
    values = evidence.table("values").drop_nulls("agrees").sort("layer", "key")
    probability, agree = (values[name].to_numpy() for name in ("top_probability", "agrees"))
    area, draws = area_under_curve(probability, agree, values["top_token"].to_numpy(), evidence.seed)
    if math.isnan(area):
        return Measurement(n=values.height, reason="all values agree, or none does" if values.height else UNKNOWN)
    tokens = values.filter("agrees")["top_token"].n_unique()
    few = f"the values that agree predict only {tokens} tokens, and {FEWEST} are needed" if tokens < FEWEST else ""
    draws = expanded(draws, area, max(tokens, 2)).clip(0, 1)
    chance = area_by_chance(probability, in_random_pairs(values))
    estimate = area, *ends(draws)
    ranked = agree[np.argsort(-probability, kind="stable")]
    cuts = [0, *(max(1, round(share * len(ranked))) for share in (0.01, 0.1)), len(ranked)]
    top, next_, rest = (percent(float(ranked[a:b].mean())) if b > a else "none" for a, b in pairwise(cuts))
    reason = f"of the hundredth with the highest probability {top} agree, "
    reason += f"{next_} of the next nine, {rest} of the others"
    over, draws = area - chance, draws - chance
    judged = by_draws(over, draws, limit)
    return Measurement(*estimate, n=values.height, judged=judged, expected=chance, reason=reason, few=few, draws=draws)


def predictive_values_above(
    evidence: Evidence, *, most: int, share: float, layers: list[int], limit: Limit
) -> Measurement:
    """K16: the share of upper layers among the values with the highest top probability."""
    best = predictive_values(evidence.table("values"), most)
    if evidence.table("values").height <= most:
        return Measurement(reason=f"the model has at most {most} values, so all of them are in the top {most}")
    upper = between(layers, evidence.layers)
    if len(upper) == evidence.layers:
        return Measurement(reason="the model has no lower layers, so every value is in the upper ones")
    above = best["layer"].is_in(upper).to_numpy()
    estimate, layers_above = (float(above.mean()), *share_interval(above, evidence.seed)), len(upper) / evidence.layers
    draws, few = resamples(above, evidence.seed) - layers_above, _too_many(evidence, most, share)
    return Measurement(*estimate, n=len(above), limit=limit, expected=layers_above, draws=draws, few=few)


def _too_many(evidence: Evidence, most: int, share: float) -> str:
    """Say if ``most`` values are more than a share of all that were read: they are then not the most predictive."""
    read = evidence.table("values").height
    return f"{most} are {percent(most / read)} of the values that were read" if most > share * read else ""


def predictive_values_agree(evidence: Evidence, *, most: int, share: float, limit: Limit) -> Measurement:
    """K17: the share of those values that predict what follows at least one of their key's triggers."""
    best = predictive_values(evidence.table("values"), most).filter(pl.col("triggers") > 0)
    agree = pooled_share(best, pl.col("agreeing_triggers") > 0, "top_token", evidence.seed)
    if agree is None:
        return Measurement(reason="no value among the most predictive has a trigger")
    reason, few = f"{int(best['triggers'].to_numpy().max())} triggers a key at most", _too_many(evidence, most, share)
    return Measurement(*agree, n=len(best), limit=limit, reason=reason, few=few)
