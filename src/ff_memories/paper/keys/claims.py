"""Check the claims of section 3 (K1 to K9)."""

from dataclasses import replace

import numpy as np
import polars as pl
from scipy.stats import trim_mean

from ff_memories.base.draws import ends, interval, resamples
from ff_memories.judge.evidence import Evidence, Missing
from ff_memories.judge.measurement import Judged, Limit, Measurement, is_clear
from ff_memories.judge.numbers import measured
from ff_memories.judge.statistics import (
    OUTSIDE,
    average,
    below_zero,
    between,
    by_layer,
    in_layers,
    mean_of,
    percent,
    pooled_share,
    rank_correlation,
    share_interval,
    within_layers,
)
from ff_memories.paper.keys.measures import TRIMMED, between_ends, key_changes, near_zero_keys, pattern_shares

KEY = ["layer", "key"]  # what is resampled, with the answers of all its annotators
ANY_SEMANTIC = "with any semantic pattern"
FEWEST = 10  # keys with a semantic pattern: with fewer, resampled keys do not say how sure their share is


def weakens_more(evidence: Evidence, *, stronger: str, weaker: str, limit: Limit, ties: bool = False) -> Measurement:
    """K1, K2, K3: one mutation lowers the mean coefficient more than another, in so many of 16 layers.

    Measured over the keys that have both mutations, as a paired difference; judged by the number of layers. A random
    token is one between the first and the last, of the same triggers.
    """
    mutations = evidence.table("mutations")
    keys = key_changes(between_ends(mutations) if "random" in (stronger, weaker) else mutations, evidence.mean)
    strong, weak = (keys.filter(pl.col("mutation") == name).select(*KEY, "change") for name in (stronger, weaker))
    paired = strong.join(weak, on=KEY, suffix="_of_weaker").sort(KEY)
    if paired.is_empty():
        return Measurement(reason="no key has mutated triggers")
    paired = paired.with_columns(margin=pl.col("change") - pl.col("change_of_weaker"))
    margins = by_layer(paired.group_by("layer").agg(pl.col("margin").mean()).sort("layer"), "margin")

    tests = {}
    for (layer,), keys_in in paired.group_by("layer", maintain_order=True) if evidence.seed is not None else ():
        if (sides_ := below_zero(keys_in["margin"].to_numpy(), ties)) is not None:
            tests[layer] = sides_
    differences = paired["margin"].to_numpy()
    draws = resamples(differences, evidence.seed)
    small = near_zero_keys(mutations, evidence.near_zero)
    holding = {layer: margin < 0 or (ties and margin == 0) for layer, margin in margins.items()}
    judged, text = in_layers(holding, tests, evidence.layers, limit, is_clear(draws, below=True))
    reason = f"{text}; median {measured(float(np.median(differences)), 'points')}"
    reason += f", trimmed mean {measured(float(trim_mean(differences, TRIMMED)), 'points')}"
    reason += f"; keys with coefficients near zero: {len(small)}" if len(small) else ""
    return Measurement(float(differences.mean()), n=len(differences), judged=judged, reason=reason, draws=draws)


def last_token_fades(evidence: Evidence, *, lower: list[int], upper: list[int], limit: Limit) -> Measurement:
    """K4: the mean size of the change without the last token, in the lower layers less in the upper."""
    keys = key_changes(evidence.table("mutations"), evidence.mean).filter(pl.col("mutation") == "last")
    changes = by_layer(keys.group_by("layer").agg(pl.col("change").mean()).sort("layer"), "change")
    sizes = {layer: abs(change) for layer, change in changes.items()}
    below, above = (average(sizes, between(bounds, evidence.layers)) for bounds in (lower, upper))
    rho = rank_correlation(list(changes), list(changes.values()))
    if rho is None or below is None or above is None:
        return Measurement(n=len(changes), reason="too few layers with mutated triggers")
    layer_draws = within_layers(keys, "change", evidence.seed)
    size_draws = {layer: np.abs(resampled) for layer, resampled in layer_draws.items()}
    under, over = (mean_of(size_draws, between(bounds, evidence.layers)) for bounds in (lower, upper))
    reason = f"{percent(below)} in the lower layers, {percent(above)} in the upper; "
    reason += f"rank correlation of layer and change {rho:.2f}"
    return Measurement(below - above, n=len(keys), limit=limit, reason=reason, draws=under - over)


def first_layer_loss(evidence: Evidence, *, limit: Limit) -> Measurement:
    """K5: the mean change after removing the last token in the first layer."""
    keys = key_changes(evidence.table("mutations"), evidence.mean)
    first = keys.filter((pl.col("mutation") == "last") & (pl.col("layer") == 1))["change"].to_numpy()
    if not len(first):
        return Measurement(reason="no mutated trigger in the first layer")
    return Measurement(float(first.mean()), n=len(first), limit=limit, draws=resamples(first, evidence.seed))


def _of_patterns(labels: pl.DataFrame, triggers: int, found: Measurement) -> Measurement:
    """Return a measurement, without its judgement if keys have fewer triggers than the paper's.

    A pattern recurs in three of a key's triggers, however many these are.
    """
    of_key = len(labels) / max(1, labels.select("annotator", *KEY).n_unique())
    if of_key >= 0.9 * triggers:  # a few keys have fewer than others
        return found
    fewer = f"not judged: {of_key:.3g} triggers a key, where the paper's patterns recur in three of {triggers}"
    return replace(found, judged=None, reason="; ".join(filter(None, [fewer, found.reason])))


def _patterns_per_key(evidence: Evidence) -> tuple[pl.DataFrame, pl.DataFrame, bool]:
    """Return the labels, and each annotated key's number of patterns and whether it has any, annotators' means."""
    labels, proxy = evidence.labels("pattern_labels")
    patterns = evidence.table("annotations").group_by("annotator", *KEY).agg(pl.len().alias("patterns"))
    answers = labels.select("annotator", *KEY).unique().join(patterns, on=["annotator", *KEY], how="left")
    number = pl.col("patterns").fill_null(0)
    return labels, answers.group_by(KEY).agg(number.mean(), (number > 0).mean().alias("any")).sort(KEY), proxy


def keys_with_a_pattern(evidence: Evidence, *, triggers: int, limit: Limit, proxy: float) -> Measurement:
    """K6: the share of annotated keys with at least one pattern; ``proxy``: the limit for the automatic proxy."""
    labels, keys, by_proxy = _patterns_per_key(evidence)
    has_pattern = keys["any"].to_numpy()
    share, spread = float(has_pattern.mean()), share_interval(has_pattern, evidence.seed)
    judged = Judged(share, *spread, Limit(proxy)) if by_proxy else Judged(share, share, share, limit)  # all, or not
    found = Measurement(share, *spread, n=len(has_pattern), judged=judged, proxy=by_proxy)
    return _of_patterns(labels, triggers, found)


def patterns_per_key(evidence: Evidence, *, triggers: int, limit: Limit) -> Measurement:
    """K7: the mean number of patterns of an annotated key."""
    labels, keys, by_proxy = _patterns_per_key(evidence)
    counts = keys["patterns"].to_numpy()
    estimate = float(counts.mean()), *interval(counts, evidence.seed)
    found = Measurement(*estimate, n=len(counts), limit=limit, proxy=by_proxy)
    return _of_patterns(labels, triggers, found)


def coverage(evidence: Evidence, *, triggers: int, limit: Limit) -> Measurement:
    """K8: the share of triggers with a pattern."""
    labels, by_proxy = evidence.labels("pattern_labels")
    covered = [1 - share for share in pattern_shares(labels, None).filter(pl.col("label") == "none")["mean"]]
    units = labels.with_columns(pl.concat_str(KEY, separator=" ").alias("unit"))
    share = pooled_share(units, pl.col("label") != "none", "unit", evidence.seed)
    if share is None:
        raise Missing("nothing has been annotated")
    extremes = f"from {percent(min(covered))} to {percent(max(covered))} by layer"
    n, keys = labels.height, labels.select(KEY).n_unique()
    found = Measurement(*share, n=n, units=keys, limit=limit, reason=extremes, proxy=by_proxy)
    return _of_patterns(labels, triggers, found)


def shallow_then_semantic(evidence: Evidence, *, lower: list[int], upper: list[int], limit: Limit) -> Measurement:
    """K9: shallow patterns dominate below, and semantic ones become more frequent above.

    The smallest of three margins: shallow less semantic triggers below, and semantic ones above less below, with
    triggers of both kinds counting for neither, as in Figure 2, and counting as semantic.
    """
    labels, by_proxy = evidence.labels("pattern_labels")
    bottom, top = between(lower, evidence.layers), between(upper, evidence.layers)
    any_semantic = pl.col("label").cast(pl.String).is_in(["semantic", "both"])
    kinds = {kind: pl.col("label") == kind for kind in ("shallow", "semantic")} | {ANY_SEMANTIC: any_semantic}
    means: dict[tuple[str, str], float] = {}
    draws: dict[tuple[str, str], np.ndarray] = {}
    for kind, hit in kinds.items():
        by = by_layer(labels.group_by("layer").agg(hit.mean().alias("share")).sort("layer"), "share")
        resampled = _share_draws(labels, hit, evidence.seed)
        for part, layers in (("lower", bottom), ("upper", top)):
            if (mean := average(by, layers)) is None:
                raise Missing("needs annotations in lower and upper layers")
            means[kind, part], draws[kind, part] = mean, mean_of(resampled, layers)
    margins = [(("shallow", "lower"), ("semantic", "lower")), (("semantic", "upper"), ("semantic", "lower")),
               ((ANY_SEMANTIC, "upper"), (ANY_SEMANTIC, "lower"))]  # fmt: skip
    values = [means[more] - means[less] for more, less in margins]
    margin_draws = [draws[more] - draws[less] for more, less in margins]
    lows = [ends(resampled)[0] for resampled in margin_draws]
    # the smallest of three resampled would be biased; one of three upper ends is too low three times as often
    low, high = min(lows), min(ends(resampled, OUTSIDE / len(margins))[1] for resampled in margin_draws)
    semantic = labels.filter(any_semantic).select(KEY).n_unique()
    smallest, least_clear = int(np.argmin(values)), int(np.argmin(lows))
    shares = {kind: [percent(means[kind, part]) for part in ("lower", "upper")] for kind in kinds}
    reason = "in the lower layers and the upper: "
    reason += ", ".join(f"{kind} {below} and {above}" for kind, (below, above) in shares.items())
    few = f"only {semantic} keys have a semantic pattern, and {FEWEST} are needed" if semantic < FEWEST else ""
    estimate = values[smallest], low, high
    measurement = Measurement(*estimate, n=labels.height, units=labels.select(KEY).n_unique(), proxy=by_proxy, few=few)
    return replace(measurement, judged=Judged(*estimate, limit), reason=reason, draws=margin_draws[least_clear])


def _share_draws(labels: pl.DataFrame, hit: pl.Expr, seed: int | None) -> dict[int, np.ndarray]:
    """Return resamples (draws,) over keys of the share of hits, by layer; the same keys for every kind of hit."""
    keys = labels.group_by(KEY).agg(hit.mean().alias("share"), pl.len().alias("rows")).sort(KEY)
    return {
        layer: resamples(part["share"].to_numpy(), None if seed is None else [seed, layer], part["rows"].to_numpy())
        for (layer,), part in keys.group_by("layer", maintain_order=True)
    }
