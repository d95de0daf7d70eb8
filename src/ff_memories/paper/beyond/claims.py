"""Beyond the paper: check what becomes of a memory's direct effect in the layers above, and of predictions without it.

B1 to B3 rest on the table `causal`, B4 on `removals`.
"""

import numpy as np
import polars as pl

from ff_memories.base.draws import ends
from ff_memories.judge.evidence import Evidence, Missing
from ff_memories.judge.measurement import Limit, Measurement
from ff_memories.judge.numbers import measured
from ff_memories.judge.statistics import percent, pooled_share, rank_correlation
from ff_memories.paper.beyond import measures as removal

EMPTY = "no memory below the last layer has a direct effect"


def _changes(evidence: Evidence) -> pl.DataFrame:
    """Return the table. Raises ``Missing`` if the config asks for no changes."""
    if evidence.table("causal").is_empty():
        raise Missing("no memory was changed (causal.keys_per_layer)")
    return evidence.table("causal")


def sign_survives(evidence: Evidence, *, limit: Limit) -> Measurement:
    """B1: total has the sign of direct more often than for matched memories with a direct effect of the same size."""
    pairs = removal.paired(_changes(evidence), evidence.layers).drop_nulls("matched")
    if pairs.is_empty():
        return Measurement(reason=EMPTY)
    difference, draws, rows = removal.at_equal_size(pairs, evidence.seed)
    units = pairs["memory"].n_unique()
    if not rows:
        return Measurement(n=len(pairs), units=units, reason="no matched memory has a direct effect of the same size")
    kept, matched = (percent(float(pairs[name].cast(pl.Float64).to_numpy().mean())) for name in ("kept", "matched"))
    reason = f"{rows} rows have an equal; of any size, {kept} against {matched}"
    return Measurement(difference, n=len(pairs), units=units, limit=limit, reason=reason, draws=draws)


def share_grows(evidence: Evidence, *, limit: None) -> Measurement:
    """B2: the higher a memory's layer, the larger the share of direct that total keeps, in rank."""
    memories = removal.effects(_changes(evidence), evidence.layers).filter(pl.col("control") == "none")
    layer, share = (memories[name].to_numpy() for name in ("layer", "share"))
    rho = rank_correlation(layer.tolist(), share.tolist())
    if rho is None:
        return Measurement(n=len(memories), reason=EMPTY if memories.is_empty() else "too few layers with memories")
    draws = removal.rank_correlations_of_pairs(layer, share, removal.drawn_memories(len(memories), evidence.seed))
    lowest, highest = (measured(float(np.median(share[layer == end])), "share") for end in (layer.min(), layer.max()))
    reason = f"the median share is {lowest} in layer {layer.min()}, {highest} in layer {layer.max()}"
    return Measurement(rho, *ends(draws), n=len(memories), reason=reason)


def effects_correlate(evidence: Evidence, *, limit: None) -> Measurement:
    """B3: rank correlation of direct and total within layers; nothing between them changes it, it is 1."""
    rows = removal.ranks(_changes(evidence), evidence.layers)
    products = rows.group_by("memory", maintain_order=True).agg(
        both=(pl.col("direct") * pl.col("total")).sum(),
        direct=pl.col("direct").pow(2).sum(),
        total=pl.col("total").pow(2).sum(),
    )
    both, direct, total = (products[name].to_numpy() for name in ("both", "direct", "total"))
    if not direct.sum() or not total.sum():
        return Measurement(n=len(rows), reason=EMPTY if rows.is_empty() else "each layer has only one change")
    resampled = removal.drawn_memories(len(products), evidence.seed)
    size = np.sqrt(direct[resampled].sum(1) * total[resampled].sum(1))
    draws = np.divide(both[resampled].sum(1), size, out=np.zeros(len(resampled)), where=size > 0)
    rho = float(both.sum() / np.sqrt(direct.sum() * total.sum()))
    return Measurement(rho, *ends(draws), n=len(rows), units=len(products))


def prediction_survives(evidence: Evidence, *, limit: None) -> Measurement:
    """B4: a layer predicts the same token without the memory with the largest effect on its margin."""
    rows = evidence.table("removals")
    if rows.is_empty():
        raise Missing("no memory was removed (removals.prefixes)")
    rows, same = rows.filter(pl.col("by") == "margin"), ~pl.col("layer_top_changed")
    share = pooled_share(rows, same, "prefix", evidence.seed)
    if share is None:
        return Measurement(reason="no row by margin")
    by_layer = rows.group_by("layer").agg(share=same.mean())["share"].to_list()
    reason = f"by layer, {percent(min(by_layer))} to {percent(max(by_layer))}"
    return Measurement(*share, n=len(rows), units=rows["prefix"].n_unique(), reason=reason)
