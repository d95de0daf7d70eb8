"""Check the claims of section 5 (K18 to K31)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from ff_memories.base.draws import RESAMPLES, ends
from ff_memories.judge.evidence import Evidence
from ff_memories.judge.measurement import Judged, Limit, Measurement, by_draws, is_clear
from ff_memories.judge.measures import boxes, means
from ff_memories.judge.statistics import (
    PAPER,
    Sides,
    at,
    average,
    between,
    by_layer,
    clustered_shares,
    in_layers,
    joint_medians,
    lowest_of_joint,
    percent,
    pooled_draws,
    pooled_share,
    share_interval,
    sign_test,
)
from ff_memories.paper.layers.measures import (
    active_memories,
    agreeing_cases,
    residual_predicts,
    zero_agreement_by_chance,
)

EMPTY = "no examples"
MOST = 0.5  # of the cases, and more


def _active(evidence: Evidence) -> dict[int, float]:
    return by_layer(active_memories(evidence.table("composition"), evidence.keys), "median")


def _active_draws(evidence: Evidence) -> np.ndarray:
    """Return resamples (draws, layers) of the median share of active memories."""
    return joint_medians(evidence.table("composition"), "active", evidence.seed) / evidence.keys


def _not_defined(evidence: Evidence, instead: Callable[[dict[int, float]], str]) -> Measurement:
    """Return a measurement without a number, for models none of whose memories is inactive.

    ``instead``: what is said of the median effective number of memories by layer, if the table has it.
    """
    table, why = evidence.table("composition"), f"active memories are not defined with {evidence.activation}: "
    why += "no coefficient is exactly zero"
    if "effective" in table.columns and (medians := by_layer(boxes(table, "effective"), "median")):
        why += f"; the effective number of memories is {instead(medians)}"
    return Measurement(n=table.height, reason=why)


def _effective_share(keys: int, medians: dict[int, float]) -> str:
    low, middle, high = (percent(float(of(list(medians.values())) / keys)) for of in (min, np.median, max))
    return f"{middle} of {keys:,} (medians from {low} to {high} by layer)"


def minority_active(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K18: the median share of active memories, as the median over layers, is within a range."""
    if not evidence.inactive:
        return _not_defined(evidence, partial(_effective_share, evidence.keys))
    medians = _active(evidence)
    if not medians:
        return Measurement(reason=EMPTY)
    middle, draws = float(np.median(list(medians.values()))), np.median(_active_draws(evidence), axis=1)
    reason = f"medians from {percent(min(medians.values()))} to {percent(max(medians.values()))} by layer"
    judged, examples = by_draws(middle, draws, limit), evidence.table("composition")["example"]
    return Measurement(middle, *ends(draws), n=len(examples), units=examples.n_unique(), judged=judged, reason=reason)


def _fewest_effective(medians: dict[int, float]) -> str:
    lowest = min(medians, key=lambda layer: (medians[layer], layer))
    return f"lowest in layer {lowest}, with a median of {medians[lowest]:.3g}"


def active_dip(evidence: Evidence, *, bottom: list[int], limit: Limit) -> Measurement:
    """K19: the layer with the fewest active memories is in a range (of the paper's 16 layers)."""
    if not evidence.inactive:
        return _not_defined(evidence, _fewest_effective)
    medians = _active(evidence)
    below = average(medians, between(bottom, evidence.layers))
    dip = between([int(limit.low or 1), int(limit.high or PAPER)], evidence.layers)
    if not medians or below is None or not dip:
        return Measurement(reason=EMPTY if not medians else "too few layers")
    lowest = min(medians, key=lambda layer: (medians[layer], layer))
    draws = np.array(list(medians))[_active_draws(evidence).argmin(1)].astype(np.float64)
    reason = f"{percent(medians[lowest])} there, {percent(below)} in the bottom layers"
    judged = by_draws(lowest, draws, Limit(min(dip), max(dip)))
    n = evidence.table("composition")["example"].n_unique()
    return Measurement(lowest, *ends(draws), n=n, judged=judged, reason=reason)


def _of_active(evidence: Evidence, measurement: Measurement) -> Measurement:
    """Return a measurement of active memories: without a judgement if these are all, where the paper's are few."""
    reason = f"{measurement.reason}; every memory is active, so it is not judged"
    return measurement if evidence.selects else replace(measurement, judged=None, reason=reason)


def zero_agreement_dominates(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K20: the share of examples without an agreeing memory, in the layer where it is lowest."""
    zero = evidence.table("composition").select("example", "layer", hit=pl.col("agreeing_memories") == 0)
    if zero.is_empty():
        return Measurement(reason=EMPTY)
    lowest, values = means(zero, ["layer"], "hit", evidence.seed).sort("mean", "layer"), evidence.table("values")
    layer, share, _, _, n = lowest.row(0)
    ends_ = lowest_of_joint(zero, evidence.seed)
    found = _of_active(evidence, Measurement(share, *ends_, n, limit=limit, reason=f"in layer {layer}"))
    memories = evidence.signs * evidence.layers * evidence.keys
    if evidence.every or values.select("layer", "key").n_unique() < memories:  # active memories are among all
        return found
    by_chance = zero_agreement_by_chance(evidence.table("composition"), values, evidence.prediction)
    rows = zero.join(by_chance, on=["example", "layer"], maintain_order="left")
    hit, chance = (rows[name].cast(pl.Float64).to_numpy() for name in ("hit", "chance"))
    reason = f"{found.reason}; in all layers, a memory agrees in {percent(1 - hit.mean())} of the cases, "
    reason += f"and if as many were active at random, one would in {percent(1 - chance.mean())}"
    return replace(found, expected=float(chance[rows["layer"].to_numpy() == layer].mean()), reason=reason)


def _agreeing_share(
    evidence: Evidence, pairs: pl.DataFrame, hit: pl.Expr, limit: Limit, beside: str = ""
) -> Measurement:
    """Measure the share of hits among the (example, layer) pairs with an agreeing memory, and among all in words."""
    agreeing = pairs.filter(pl.col("agreeing_memories") > 0)
    share, base = (pooled_share(part, hit, "example", evidence.seed) for part in (agreeing, pairs))
    if share is None or base is None:
        return Measurement(n=0, reason="no memory ever agrees with its layer")
    units, reason = agreeing["example"].n_unique(), f"base rate {percent(base[0])}{beside}"
    return _of_active(evidence, Measurement(*share, n=agreeing.height, units=units, limit=limit, reason=reason))


def agreeing_stop_words(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K21: the share of stop words among layer predictions that a memory agrees with, compared with all pairs."""
    words = pl.Series(sorted(evidence.stop_words), dtype=pl.UInt32)
    hit = pl.col(evidence.prediction).is_in(words.implode())
    return _agreeing_share(evidence, evidence.table("composition"), hit, limit, _in_the_text(evidence))


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
    positions = evidence.table("examples").select("example", "position")
    pairs = evidence.table("composition").join(positions, on="example", how="inner")
    return _agreeing_share(evidence, pairs, pl.col("position") < shorter_than, limit)


def _of_examples(evidence: Evidence, rows: pl.DataFrame, hit: pl.Expr, **judged: Any) -> Measurement:
    """Return the measured share of hits among rows of examples, whose rows go together; ``judged``: by what."""
    share = pooled_share(rows, hit, "example", evidence.seed)
    if share is None:
        return Measurement(reason=EMPTY)
    return Measurement(*share, n=len(rows), units=rows["example"].n_unique(), **judged)


def settled_early(evidence: Evidence, *, layers: list[int], limit: Limit) -> Measurement:
    """K23: how often the lowest layers' residual already predicts the output, as a mean over those layers."""
    lowest = between(layers, evidence.layers)
    table = evidence.table("refinement").filter(pl.col("layer").is_in(lowest))
    if not lowest:
        return Measurement(reason="too few layers")
    found = _of_examples(evidence, table, pl.col("residual_top") == pl.col("model_top"), limit=limit)
    return replace(found, n=found.units)


def settles_late(evidence: Evidence, *, early: list[int], late: list[int], limit: Limit) -> Measurement:
    """K24: the gain per layer of the share whose residual predicts the output, late less early."""
    by = by_layer(residual_predicts(evidence.table("refinement"), None), "mean")
    spans = [[at(layer, evidence.layers) for layer in bounds] for bounds in (early, late)]
    if any(last <= first for first, last in spans) or not {layer for span in spans for layer in span} <= set(by):
        return Measurement(reason="too few layers" if by else EMPTY)
    before, after = ((by[last] - by[first]) / (last - first) for first, last in spans)
    hits = evidence.table("refinement").select("example", "layer", hit=pl.col("residual_top") == pl.col("model_top"))
    draws = clustered_shares(hits, "hit", "example", evidence.seed, RESAMPLES)
    layer_draws = dict(zip(sorted(by), draws.T, strict=True))
    early_gain, late_gain = ((layer_draws[last] - layer_draws[first]) / (last - first) for first, last in spans)
    reason = f"gain per layer {100 * before:.3g} points early, {100 * after:.3g} late"
    n, draws = hits["example"].n_unique(), late_gain - early_gain
    return Measurement(after - before, n=n, limit=limit, reason=reason, draws=draws)


def settled_at_the_end(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K31: how often the last layer's residual predicts the model's output."""
    table = evidence.table("refinement").filter(pl.col("layer") == evidence.layers)
    return _of_examples(evidence, table, pl.col("residual_top") == pl.col("model_top"), limit=limit)


def confidence_grows(evidence: Evidence, *, start: int, limit: Limit) -> Measurement:
    """K25: the rise since ``start`` of the median probability of the final prediction under the residual."""
    medians = by_layer(boxes(evidence.table("refinement"), "residual_probability"), "median")
    first = at(start, evidence.layers)
    layers = [layer for layer in range(first, evidence.layers + 1) if layer in medians]
    if len(layers) < 2:
        return Measurement(reason="too few layers" if medians else EMPTY)
    falls = sum(medians[b] < medians[a] for a, b in pairwise(layers))
    begin, end = medians[layers[0]], medians[layers[-1]]
    ends_ = evidence.table("refinement").filter(pl.col("layer").is_in([layers[0], layers[-1]]))
    end_draws = joint_medians(ends_, "residual_probability", evidence.seed)
    draws = end_draws[:, -1] - end_draws[:, 0]
    n = evidence.table("refinement")["example"].n_unique()
    often = {0: "never falls", 1: "falls once"}.get(falls, f"falls {falls} times")
    reason = f"from {begin:.3g} in layer {layers[0]} to {end:.3g} in layer {layers[-1]}; the median {often}"
    return Measurement(end - begin, n=n, limit=limit, reason=reason, draws=draws)


def residual_stands(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K26: the share of predictions that a layer leaves unchanged, all layers together."""
    kept = pl.col("kind").is_in(["residual", "agreement"])
    table, hit = evidence.table("refinement").with_columns(hit=kept), pl.col("hit")
    if table.is_empty():
        return Measurement(reason=EMPTY)
    by = by_layer(table.group_by("layer").agg(pl.col("hit").mean()).sort("layer"), "hit")
    below = [f"{layer} ({percent(of)})" for layer, of in by.items() if limit.low is not None and of < limit.low]
    reason = f"below {percent(limit.low or 0)}: " + (f"layers {', '.join(below)}" if below else "no layer")
    draws = pooled_draws(table, hit, "example", evidence.seed)
    return _of_examples(evidence, table, hit, limit=limit, null=MOST, reason=reason, draws=draws)


def _compared(
    evidence: Evidence, most: str, least: str, neither: str
) -> tuple[Measurement, dict[int, bool], dict[int, Sides]]:
    """Compare two kinds: the share of ``most`` among both, and in which layers it is larger, with tests of that.

    Layers with neither kind do not count. ``neither``: the reason if no layer has any.
    """
    table = evidence.table("refinement")
    both, larger = table.filter(pl.col("kind").is_in([most, least])), pl.col("kind") == most
    if both.is_empty():
        return Measurement(n=0, reason=neither if len(table) else EMPTY), {}, {}
    counts = both.group_by("layer").agg(more=larger.sum(), of=pl.len()).sort("layer").iter_rows()
    rows = {layer: (more, of) for layer, more, of in counts}
    draws = pooled_draws(both, larger, "example", evidence.seed)
    holding = {layer: 2 * more > of for layer, (more, of) in rows.items()}
    tests = {layer: sign_test(*row) for layer, row in rows.items()} if evidence.seed is not None else {}
    return _of_examples(evidence, both, larger, draws=draws), holding, tests


def feed_forward_disagrees(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K27: when the residual's prediction is unchanged, the feed-forward usually predicts another, by layers."""
    neither = "no layer leaves a prediction unchanged"
    measurement, holding, tests = _compared(evidence, "residual", "agreement", neither)
    if measurement.value is None:
        return measurement
    judged, text = in_layers(holding, tests, evidence.layers, limit, is_clear(measurement.draws, MOST))
    return replace(measurement, judged=judged, reason=f"the larger share {text}")


def compromise(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K28: the share of compositions, in which a third token wins, among changed predictions."""
    measurement, holding, _ = _compared(evidence, "composition", "ffn", "no layer changes a prediction")
    if measurement.value is None:
        return measurement
    _, text = in_layers(holding, {}, evidence.layers, Limit(0), None)
    return replace(measurement, limit=limit, null=MOST, reason=f"the larger share {text}")


def no_third_token(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K29: residual and feed-forward never agree while the output differs, if the projection is linear."""
    table = evidence.table("refinement")
    third = (pl.col("residual_top") == pl.col("ffn_top")) & (pl.col("output_top") != pl.col("residual_top"))
    found = _of_examples(evidence, table, third, limit=limit)
    if found.value is None or not evidence.one_softmax:
        return found
    # the logits add up under one flat softmax, so there cannot be a single case
    return replace(found, judged=Judged(found.value, found.value, found.value, Limit(high=0.0)))


def distant_compositions(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K30: the share of last-layer compositions that are semantically distant from the predictions they replace."""
    labels, proxy = evidence.labels("distance_labels")
    distant = labels.group_by("example").agg((pl.col("label") == "distant").mean()).sort("example")["label"].to_numpy()
    estimate = float(distant.mean()), *share_interval(distant, evidence.seed)
    return Measurement(*estimate, n=len(distant), limit=limit, proxy=proxy)
