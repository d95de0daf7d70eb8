"""E2, section 3.2, Figure 2: check the patterns that annotators found in keys (K6 to K9)."""

import numpy as np
import polars as pl

from ff_memories.base.bootstrap import ends, interval, resamples
from ff_memories.claims.evidence import Evidence, Missing
from ff_memories.claims.layers import between, tally
from ff_memories.claims.measurement import Measurement
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


def keys_with_a_pattern(evidence: Evidence, *, people: float, proxy: float) -> Measurement:
    """K6: the share of annotated keys with at least one pattern."""
    keys, by_proxy = _patterns_per_key(evidence)
    found = (keys["patterns"] > 0).to_numpy()
    share = float(found.mean())
    ok = share >= (proxy if by_proxy else people)
    return Measurement(share, *share_interval(found, evidence.seed), n=len(found), ok=ok, proxy=by_proxy)


def patterns_per_key(evidence: Evidence, *, within: list[float]) -> Measurement:
    """K7: the mean number of patterns of an annotated key."""
    keys, by_proxy = _patterns_per_key(evidence)
    counts = keys["patterns"].cast(pl.Float64).to_numpy()
    mean = float(counts.mean())
    ok = within[0] <= mean <= within[1]
    return Measurement(mean, *interval(counts, evidence.seed), n=len(counts), ok=ok, proxy=by_proxy)


def coverage(evidence: Evidence, *, within: list[float]) -> Measurement:
    """K8: the share of triggers with a pattern, which must be within a range in every layer."""
    labels, shares, by_proxy = _labelled(evidence)
    covered = {layer: 1 - share for layer, share in shares["none"].items()}
    ok, text = tally({layer: within[0] <= c <= within[1] for layer, c in covered.items()}, evidence.layers)
    units = labels.with_columns(pl.concat_str(KEY, separator=" ").alias("unit"))
    share = pooled_share(units, pl.col("label") != "none", "unit", evidence.seed)
    if share is None:
        raise Missing("nothing has been annotated")
    extremes = f"from {percent(min(covered.values()))} to {percent(max(covered.values()))} by layer"
    return Measurement(*share, n=labels.height, ok=ok, reason=f"{extremes}; within the range {text}", proxy=by_proxy)


def shallow_then_semantic(evidence: Evidence, *, lower: list[int], upper: list[int], layers_needed: int) -> Measurement:
    """K9: shallow labels fall and semantic ones rise from lower to upper layers, and shallow ones dominate below.

    A trigger with patterns of both kinds counts for neither, as in Figure 2.
    """
    labels, shares, by_proxy = _labelled(evidence)
    bottom, top = between(lower, evidence.layers), between(upper, evidence.layers)
    parts = (("lower", bottom), ("upper", top))
    means = {(kind, part): mean for kind in ("shallow", "semantic") for part, layers in parts
             if (mean := average(shares[kind], layers)) is not None}  # fmt: skip
    if len(means) < 4:
        raise Missing("needs annotations in lower and upper layers")
    prevails = {
        layer: shares["shallow"][layer] > shares["semantic"][layer] for layer in bottom if layer in shares["shallow"]
    }
    # "in 8 of layers 1 to 9" is a share of the lower layers, so it scales with their number
    enough = sum(prevails.values()) * (lower[1] - lower[0] + 1) >= layers_needed * len(bottom)
    falls = means["shallow", "lower"] > means["shallow", "upper"]
    rise = means["semantic", "upper"] - means["semantic", "lower"]
    draws = _rises(labels, bottom, top, evidence.seed)
    return Measurement(
        rise,
        *ends(draws),
        n=labels.height,
        ok=falls and rise > 0 and enough,
        reason=f"shallow {percent(means['shallow', 'lower'])} in the lower layers, "
        f"{percent(means['shallow', 'upper'])} in the upper; semantic {percent(means['semantic', 'lower'])} and "
        f"{percent(means['semantic', 'upper'])}; "
        f"shallow dominates in {sum(prevails.values())} of {len(bottom)} lower layers",
        proxy=by_proxy,
        draws=draws,
    )


def _rises(labels: pl.DataFrame, bottom: list[int], top: list[int], seed: int | None) -> np.ndarray:
    """Return resamples (draws,) over keys of the rise of the semantic share from lower to upper layers."""
    semantic = (pl.col("label") == "semantic").mean()
    keys = labels.group_by(KEY).agg(semantic.alias("share"), pl.len().alias("rows")).sort(KEY)
    draws = {
        layer: resamples(part["share"].to_numpy(), None if seed is None else [seed, layer], part["rows"].to_numpy())
        for (layer,), part in keys.sort("layer", maintain_order=True).group_by("layer", maintain_order=True)
    }
    return mean_of(draws, top) - mean_of(draws, bottom)
