"""E11 to E14, section 5.2: check how the residual refines the prediction across layers (K23 to K30)."""

from dataclasses import replace
from itertools import pairwise

import polars as pl

from ff_memories.base.bootstrap import ends
from ff_memories.claims.evidence import Evidence
from ff_memories.claims.layers import at, between, both, tally
from ff_memories.claims.measurement import Measurement
from ff_memories.claims.measures import means, refinement_kinds, residual_predicts, residual_probabilities
from ff_memories.claims.statistics import (
    by_layer,
    joint_medians,
    joint_shares,
    lowest_of_joint,
    percent,
    pooled_draws,
    pooled_share,
    share_interval,
)

EMPTY = "no examples"


def _kinds(evidence: Evidence) -> dict[str, dict[int, float]]:
    """Return the share of every kind, by kind and layer."""
    shares = refinement_kinds(evidence.table("refinement"), evidence.seed)
    return {kind: by_layer(part, "mean") for (kind,), part in shares.group_by("kind", maintain_order=True)}


def settled_early(evidence: Evidence, *, layers: list[int], within: list[float]) -> Measurement:
    """K23: how often the lowest layers' residual already predicts the output, as a mean over those layers."""
    table = evidence.table("refinement").filter(pl.col("layer").is_in(between(layers, evidence.layers)))
    share = pooled_share(table, pl.col("residual_top") == pl.col("model_top"), "example", evidence.seed)
    if share is None:
        return Measurement(reason=EMPTY)
    return Measurement(*share, n=table["example"].n_unique(), ok=within[0] <= share[0] <= within[1])


def settles_late(
    evidence: Evidence, *, early: list[int], late: list[int], factor: float, at_least: float
) -> Measurement:
    """K24: the residual predicts the output in the last layer, and gains faster from layer 10 on than before."""
    shares = residual_predicts(evidence.table("refinement"), evidence.seed)
    by = by_layer(shares, "mean")
    spans = [[at(layer, evidence.layers) for layer in bounds] for bounds in (early, late)]
    if any(last <= first for first, last in spans) or not {layer for span in spans for layer in span} <= set(by):
        return Measurement(reason="too few layers" if by else EMPTY)
    before, after = ((by[last] - by[first]) / (last - first) for first, last in spans)
    hits = evidence.table("refinement").select("example", "layer", hit=pl.col("residual_top") == pl.col("model_top"))
    again = joint_shares(hits, evidence.seed)
    early_, late_ = ((again[:, by_[1]] - again[:, by_[0]]) / (by_[1] - by_[0])
                     for by_ in ([sorted(by).index(layer) for layer in span] for span in spans))  # fmt: skip
    row = shares.filter(pl.col("layer") == evidence.layers).row(0, named=True)
    final = evidence.table("refinement").filter(pl.col("layer") == evidence.layers)
    return Measurement(
        row["mean"],
        *share_interval((final["residual_top"] == final["model_top"]).to_numpy(), evidence.seed),
        row["n"],
        ok=row["mean"] >= at_least and after > factor * before,
        reason=f"gain per layer {100 * before:.3g} points early, {100 * after:.3g} late",
        draws=late_ - early_,
    )


def confidence_grows(evidence: Evidence, *, start: int, exceptions: int, factor: float, or_above: float) -> Measurement:
    """K25: the median probability of the final prediction grows from layer ``start`` on, to a high value."""
    medians = by_layer(residual_probabilities(evidence.table("refinement")), "median")
    first = at(start, evidence.layers)
    layers = [layer for layer in range(first, evidence.layers + 1) if layer in medians]
    if len(layers) < 2:
        return Measurement(reason="too few layers" if medians else EMPTY)
    falls = sum(medians[b] < medians[a] for a, b in pairwise(layers))
    begin, end = medians[layers[0]], medians[layers[-1]]
    ends_ = evidence.table("refinement").filter(pl.col("layer").is_in([layers[0], layers[-1]]))
    again = joint_medians(ends_, "residual_probability", evidence.seed)
    return Measurement(
        end,
        *ends(again[:, -1]),
        n=evidence.table("refinement")["example"].n_unique(),
        ok=falls <= exceptions and (end > factor * begin or end > or_above),
        reason=f"from {begin:.3g} in layer {layers[0]}; {_falls(falls)}",
        draws=again[:, -1] - again[:, 0],
    )


def _falls(times: int) -> str:
    """Return in words how often the median falls from one layer to the next."""
    return {0: "the median never falls", 1: "the median falls once"}.get(times, f"the median falls {times} times")


def residual_stands(evidence: Evidence, *, at_least: float, lenient: float) -> Measurement:
    """K26: the share of examples whose prediction the layer leaves unchanged, in the layer where it is lowest."""
    kept = pl.col("kind").is_in(["residual", "agreement"])
    stands = evidence.table("refinement").select("example", "layer", hit=kept)
    shares = means(stands, ["layer"], "hit", evidence.seed)
    if shares.is_empty():
        return Measurement(reason=EMPTY)
    row = shares.sort("mean", "layer").row(0, named=True)
    reason = f"in layer {row['layer']}"
    if lenient <= row["mean"] < at_least:
        reason += f"; above the lenient limit of {percent(lenient)}"
    spread = lowest_of_joint(stands, evidence.seed)
    # each resample's own lowest share is biased downwards, so the test is conservative
    draws = joint_shares(stands, evidence.seed).min(1)
    return Measurement(row["mean"], *spread, row["n"], ok=row["mean"] >= at_least, reason=reason, draws=draws)


def _compared(evidence: Evidence, most: str, least: str, layers_needed: int) -> tuple[Measurement, bool | None, str]:
    """Compare two kinds: the share of ``most`` among both, and the number of layers in which it is larger.

    Layers with neither kind do not count.
    """
    kinds = _kinds(evidence)
    if not kinds:
        return Measurement(reason=EMPTY), None, EMPTY
    layers = [layer for layer in kinds[most] if kinds[most][layer] + kinds[least][layer] > 0]
    ok, text = tally(
        {layer: kinds[most][layer] > kinds[least][layer] for layer in layers}, evidence.layers, layers_needed
    )
    both = evidence.table("refinement").filter(pl.col("kind").is_in([most, least]))
    share = pooled_share(both, pl.col("kind") == most, "example", evidence.seed)
    if share is None:
        return Measurement(n=both.height), ok, f"the larger share {text}"
    draws = pooled_draws(both, pl.col("kind") == most, "example", evidence.seed)
    found = Measurement(*share, n=both.height, draws=draws)
    return found, ok, f"the larger share {text}"


def feed_forward_disagrees(evidence: Evidence, *, layers_needed: int) -> Measurement:
    """K27: when the residual's prediction is unchanged, the feed-forward predicts another token more often than not."""
    found, ok, text = _compared(evidence, "residual", "agreement", layers_needed)
    return replace(found, ok=ok, reason=text)


def compromise(evidence: Evidence, *, layers_needed: int, factor: float) -> Measurement:
    """K28: most changed predictions are a third token in every layer, and ``factor`` times as many overall."""
    found, ok, text = _compared(evidence, "composition", "ffn", layers_needed)
    if found.value is None:
        return Measurement(n=found.n, reason=text if text == EMPTY else "no layer changes a prediction")
    often = found.value >= factor * (1 - found.value)
    return replace(found, ok=both(often, ok), reason=text)


def no_third_token(evidence: Evidence, *, at_most: float) -> Measurement:
    """K29: residual and feed-forward never agree while the output differs, if the projection is linear."""
    table = evidence.table("refinement")
    third = (pl.col("residual_top") == pl.col("ffn_top")) & (pl.col("output_top") != pl.col("residual_top"))
    share = pooled_share(table, third, "example", evidence.seed)
    if share is None:
        return Measurement(reason=EMPTY)
    # under one flat softmax the logits add up, so there cannot be a single case
    limit = 0.0 if evidence.one_softmax else at_most
    return Measurement(*share, n=table.height, ok=share[0] <= limit)


def distant_compositions(evidence: Evidence, *, within: list[float]) -> Measurement:
    """K30: the share of last-layer compositions that are semantically distant from the predictions they replace."""
    labels, proxy = evidence.labels("distance_labels")
    distant = (labels.sort("annotator", "example")["label"] == "distant").to_numpy()
    share = float(distant.mean())
    ok = within[0] <= share <= within[1]
    return Measurement(share, *share_interval(distant, evidence.seed), n=len(distant), ok=ok, proxy=proxy)
