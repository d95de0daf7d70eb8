"""E2, section 3.2, Figure 2: check the patterns that annotators found in keys (K6 to K9)."""

import numpy as np
import polars as pl

from ff_memories.base.draws import ends, interval, resamples
from ff_memories.claims.evidence import Evidence, Missing
from ff_memories.claims.layers import between
from ff_memories.claims.measurement import Judged, Limit, Measurement, itself
from ff_memories.claims.measures import LABELS, pattern_shares
from ff_memories.claims.statistics import average, by_layer, mean_of, percent, pooled_share, share_interval

KEY = ["annotator", "layer", "key"]


def _patterns_per_key(evidence: Evidence) -> tuple[pl.DataFrame, bool]:
    """Return the number of patterns of each annotated key, that is, each key with labelled triggers."""
    labels, proxy = evidence.labels("pattern_labels")
    found = evidence.table("annotations").group_by(KEY).agg(pl.len().alias("patterns"))
    keys = labels.select(KEY).unique().join(found, on=KEY, how="left")
    return keys.with_columns(pl.col("patterns").fill_null(0)).sort(KEY), proxy


def _labelled(evidence: Evidence) -> tuple[pl.DataFrame, dict[str, dict[int, float]], bool]:
    labels, proxy = evidence.labels("pattern_labels")
    shares = pattern_shares(labels, evidence.seed)
    return labels, {kind: by_layer(shares.filter(pl.col("label") == kind), "mean") for kind in LABELS}, proxy


def _keys(labels: pl.DataFrame) -> int:
    return labels.select(KEY).n_unique()


def keys_with_a_pattern(evidence: Evidence, *, limit: Limit, proxy: float) -> Measurement:
    """K6: the share of annotated keys with at least one pattern; ``proxy``: the limit for the automatic proxy."""
    keys, by_proxy = _patterns_per_key(evidence)
    found = (keys["patterns"] > 0).to_numpy()
    share, spread = float(found.mean()), share_interval(found, evidence.seed)
    judged = (
        itself(share, *spread, Limit(proxy)) if by_proxy else itself(share, share, share, limit)
    )  # all of them, or not
    return Measurement(share, *spread, n=len(found), judged=judged, proxy=by_proxy)


def patterns_per_key(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K7: the mean number of patterns of an annotated key."""
    keys, by_proxy = _patterns_per_key(evidence)
    counts = keys["patterns"].cast(pl.Float64).to_numpy()
    mean, spread = float(counts.mean()), interval(counts, evidence.seed)
    return Measurement(mean, *spread, n=len(counts), judged=itself(mean, *spread, limit), proxy=by_proxy)


def coverage(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K8: the share of triggers with a pattern."""
    labels, shares, by_proxy = _labelled(evidence)
    covered = [1 - share for share in shares["none"].values()]
    units = labels.with_columns(pl.concat_str(KEY, separator=" ").alias("unit"))
    share = pooled_share(units, pl.col("label") != "none", "unit", evidence.seed)
    if share is None:
        raise Missing("nothing has been annotated")
    extremes = f"from {percent(min(covered))} to {percent(max(covered))} by layer"
    judged = itself(*share, limit)
    return Measurement(*share, n=labels.height, units=_keys(labels), judged=judged, reason=extremes, proxy=by_proxy)


def shallow_then_semantic(evidence: Evidence, *, lower: list[int], upper: list[int], limit: Limit) -> Measurement:
    """K9: shallow labels dominate the lower layers, and semantic ones rise from lower to upper layers.

    A trigger with patterns of both kinds counts for neither, as in Figure 2. The smaller of both margins is judged.
    """
    labels, shares, by_proxy = _labelled(evidence)
    bottom, top = between(lower, evidence.layers), between(upper, evidence.layers)
    parts = (("lower", bottom), ("upper", top))
    means = {
        (kind, part): mean
        for kind in ("shallow", "semantic", "both")
        for part, layers in parts
        if (mean := average(shares[kind], layers)) is not None
    }
    if len(means) < 6:
        raise Missing("needs annotations in lower and upper layers")
    rise = means["semantic", "upper"] - means["semantic", "lower"]
    margin = means["shallow", "lower"] - means["semantic", "lower"]
    again = {kind: _again(labels, kind, evidence.seed) for kind in ("shallow", "semantic")}
    draws = mean_of(again["semantic"], top) - mean_of(again["semantic"], bottom)
    margins = mean_of(again["shallow"], bottom) - mean_of(again["semantic"], bottom)
    spreads = [ends(own) for own in (draws, margins)]
    low, high = (min(one[end] for one in spreads) for end in (0, 1))  # the smaller of two resampled would be biased
    anything = {part: means["semantic", part] + means["both", part] for part, _ in parts}
    return Measurement(
        rise,
        *ends(draws),
        n=labels.height,
        units=_keys(labels),
        judged=Judged(min(rise, margin), low, high, limit),
        reason=f"shallow {percent(means['shallow', 'lower'])} in the lower layers, "
        f"{percent(means['shallow', 'upper'])} in the upper; semantic {percent(means['semantic', 'lower'])} and "
        f"{percent(means['semantic', 'upper'])}; "
        f"with any semantic pattern {percent(anything['lower'])} and {percent(anything['upper'])}",
        proxy=by_proxy,
        draws=draws,
    )


def _again(labels: pl.DataFrame, label: str, seed: int | None) -> dict[int, np.ndarray]:
    """Return resamples (draws,) over keys of the share of a label, by layer; the same keys for every label."""
    keys = labels.group_by(KEY).agg((pl.col("label") == label).mean().alias("share"), pl.len().alias("rows")).sort(KEY)
    return {
        layer: resamples(part["share"].to_numpy(), None if seed is None else [seed, layer], part["rows"].to_numpy())
        for (layer,), part in keys.sort("layer", maintain_order=True).group_by("layer", maintain_order=True)
    }
