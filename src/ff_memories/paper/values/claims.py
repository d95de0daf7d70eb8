"""E4 to E7, section 4: check values' predictions against the tokens after their keys' triggers (K10 to K17)."""

from typing import Any

import numpy as np
import polars as pl

from ff_memories.base.draws import ends, resamples
from ff_memories.judge.evidence import Evidence
from ff_memories.judge.layers import PAPER, between
from ff_memories.judge.measurement import Judged, Limit, Measurement, itself
from ff_memories.judge.statistics import (
    average,
    by_layer,
    highest_of_independent,
    mean_of,
    medians,
    percent,
    rank_correlation,
    rank_correlations,
    share_interval,
    within_groups,
)
from ff_memories.paper.values.measures import (
    agreement,
    agreement_by_probability,
    by_probability,
    next_token_ranks,
    predictive_values,
)

UNKNOWN = "no value in these layers has a trigger with a known target"


def _peak(evidence: Evidence, layers: list[int]) -> dict[str, Any] | None:
    """Return the row of the layer among ``layers`` with the highest agreement rate (the lowest such layer).

    Its interval applies to the highest rate among the layers, not to a layer chosen in advance.
    """
    rates = agreement(evidence.table("values"), evidence.seed).filter(pl.col("layer").is_in(layers))
    if rates.is_empty():
        return None
    low, high = highest_of_independent(rates["mean"].to_numpy(), rates["n"].to_numpy(), evidence.seed)
    return rates.sort("mean", "layer", descending=[True, False]).row(0, named=True) | {"low": low, "high": high}


def near_zero_below(evidence: Evidence, *, layers: list[int], limit: Limit) -> Measurement:
    """K10: the highest agreement rate of the lower layers is below a limit."""
    peak = _peak(evidence, between(layers, evidence.layers))
    if peak is None:
        return Measurement(reason=UNKNOWN)
    estimate = peak["mean"], peak["low"], peak["high"]
    return Measurement(*estimate, peak["n"], judged=itself(*estimate, limit), reason=f"in layer {peak['layer']}")


def peak_above(evidence: Evidence, *, layers: list[int], limit: Limit) -> Measurement:
    """K11: the highest rate of the upper layers is a few percent."""
    peak, anywhere = (_peak(evidence, between(b, evidence.layers)) for b in (layers, [1, PAPER]))
    if peak is None or anywhere is None:
        return Measurement(reason=UNKNOWN)
    estimate = peak["mean"], peak["low"], peak["high"]
    reason = f"in layer {peak['layer']}; the highest of all is in layer {anywhere['layer']}"
    return Measurement(*estimate, peak["n"], judged=itself(*estimate, limit), reason=reason)


def contrast(evidence: Evidence, *, lower: list[int], upper: list[int], limit: Limit) -> Measurement:
    """K12: the upper layers' mean rate relative to the lower layers'; undecided if the latter is zero."""
    rates = agreement(evidence.table("values"), evidence.seed)
    by = by_layer(rates, "mean")
    below, above = (average(by, between(bounds, evidence.layers)) for bounds in (lower, upper))
    n = int(rates["n"].to_numpy().sum())
    if below is None or above is None:
        return Measurement(n=n, reason=UNKNOWN)
    reason = f"{percent(above)} against {percent(below)}"
    if below == 0:
        return Measurement(n=n, reason=reason, few="the lower layers never agree, so there is no ratio")
    layer_draws = within_groups(evidence.table("values"), "agrees", evidence.seed)
    under, over = (mean_of(layer_draws, between(bounds, evidence.layers)) for bounds in (lower, upper))
    ratio = np.divide(over, under, out=np.full(len(under), np.inf), where=under > 0)
    low, high = np.percentile(ratio, [2.5, 97.5], method="inverted_cdf") if len(ratio) else (np.nan, np.nan)
    estimate, draws = (above / below, low, high), over - under
    open_ = np.isinf(high) and not limit.reached(low)
    return Measurement(
        *estimate,
        n=n,
        judged=itself(*estimate, limit, draws=draws),
        reason=reason,
        few="the lower layers agree so rarely that the ratio has no upper end" if open_ else "",
        draws=draws,
    )


def above_chance(evidence: Evidence, *, layers: list[int], limit: Limit) -> Measurement:
    """K13: the highest rate of the upper layers relative to that of a type drawn uniformly."""
    peak = _peak(evidence, between(layers, evidence.layers))
    if peak is None:
        return Measurement(reason=UNKNOWN)
    rate, low, high = (evidence.vocab * peak[name] for name in ("mean", "low", "high"))
    reason = f"{percent(peak['mean'])} against {percent(1 / evidence.vocab)}"
    judged = Judged(rate, low, high, limit, clear=bool(low > 1))
    return Measurement(rate, low, high, peak["n"], judged=judged, reason=reason)


def rank_improves(evidence: Evidence, *, lower: list[int], upper: list[int], limit: Limit) -> Measurement:
    """K14: the target's median rank in the top layers, relative to that in the lower ones."""
    values = evidence.table("values").drop_nulls("next_token_rank")
    parts = [values.filter(pl.col("layer").is_in(between(bounds, evidence.layers))) for bounds in (lower, upper)]
    below, above = (part.select(pl.col("next_token_rank").median()).item() for part in parts)
    by = by_layer(next_token_ranks(values), "median")
    rho = rank_correlation(list(by), list(by.values()))
    if below is None or above is None or rho is None:
        return Measurement(
            n=values.height, reason=UNKNOWN if values.is_empty() else "too few layers whose ranks differ"
        )
    under, over = (medians(part["next_token_rank"].cast(pl.Float64).to_numpy(), evidence.seed) for part in parts)
    spread, draws = ends(np.divide(over, under, out=np.full(len(under), np.nan), where=under > 0)), over - under
    reason = f"median rank {above:.6g} against {below:.6g}; rank correlation with the layer {rho:.2f}"
    if not below:
        return Measurement(None, *spread, n=values.height, few="the lower layers' median rank is 0", reason=reason)
    judged = itself(above / below, *spread, limit, draws=draws)
    return Measurement(above / below, *spread, n=values.height, judged=judged, reason=reason, draws=draws)


def rises_with_probability(evidence: Evidence, *, bins: int, filled: int, values: int, limit: Limit) -> Measurement:
    """K15: agreement rises over bins of the top probability, of which ``filled`` must have ``values`` values.

    Bins with fewer values have no say: the rate of one value is 0 or 1.
    """
    table = evidence.table("values")
    binned = agreement_by_probability(table, bins, evidence.seed)
    rates = binned["mean"].to_list()
    full = binned.filter(pl.col("n") >= values)
    rho = rank_correlation(full["bin"].to_list(), full["mean"].to_list())
    n, sizes = int(binned["n"].to_numpy().sum()), binned["n"].to_list()
    few = (
        ""
        if full.height >= filled
        else f"only {full.height} of {bins} bins hold {values} values or more, and {filled} are needed"
    )
    if rho is None:
        return Measurement(n=n, reason="all bins have the same agreement, or fewer than three have enough values")
    bin_draws = within_groups(by_probability(table, bins), "agrees", evidence.seed, "bin")
    draws = rank_correlations(full["bin"].to_list(), np.stack([bin_draws[edge] for edge in full["bin"]], axis=1))
    if len(draws) and draws.min() == draws.max():  # bins with no cases or only cases never draw others
        draws = np.empty(0)
    return Measurement(
        rho,
        *ends(draws),
        n=n,
        judged=itself(rho, *ends(draws), limit, draws=draws),
        few=few if full.height < filled else "",
        reason=f"{percent(rates[0])} in the lowest bin, {percent(rates[-1])} in the highest; values in the bins: "
        f"{', '.join(f'{size:,}' for size in sizes)}",
        draws=draws,
    )


def predictive_values_above(evidence: Evidence, *, most: int, layers: list[int], limit: Limit) -> Measurement:
    """K16: the share of upper layers among the values with the highest top probability."""
    best = predictive_values(evidence.table("values"), most)
    if evidence.table("values").height <= most:
        return Measurement(reason=f"the model has at most {most} values, so all of them are in the top {most}")
    upper = between(layers, evidence.layers)
    if len(upper) == evidence.layers:
        return Measurement(reason="the model has no lower layers, so every value is in the upper ones")
    above = best["layer"].is_in(upper).to_numpy()
    share, layers_above = float(above.mean()), len(upper) / evidence.layers
    spread = share_interval(above, evidence.seed)
    draws = resamples(above, evidence.seed) - layers_above
    judged = itself(share, *spread, limit, draws=draws)
    return Measurement(share, *spread, n=len(above), judged=judged, draws=draws)


def predictive_values_agree(evidence: Evidence, *, most: int, limit: Limit) -> Measurement:
    """K17: the share of those values that predict what follows at least one of their key's triggers."""
    best = predictive_values(evidence.table("values"), most).filter(pl.col("triggers") > 0)
    if best.is_empty():
        return Measurement(reason="no value among the most predictive has a trigger")
    agree = (best["agreeing_triggers"] > 0).to_numpy()
    estimate = float(agree.mean()), *share_interval(agree, evidence.seed)
    return Measurement(*estimate, n=len(agree), judged=itself(*estimate, limit))
