"""What claims and figures of the section measure, from its tables."""

import polars as pl

from ff_memories.base.draws import interval
from ff_memories.judge.measures import MEAN, NEAR_ZERO, means
from ff_memories.paper.keys.tables import MUTATION

MUTATIONS = tuple(MUTATION.categories)
TRIMMED = 0.1  # share of the keys at either end
LABELS = ("shallow", "both", "semantic", "none")  # in the order of Figure 2's bars, bottom to top


def key_changes(mutations: pl.DataFrame, mean: str) -> pl.DataFrame:
    """Return each key's change of coefficient per mutation: ``layer``, ``key``, ``mutation``, ``change``, ``n``.

    ``mean`` is ``of_ratios`` (mean of its prefixes' changes) or ``of_sums`` (change of its summed coefficients). A
    coefficient below zero is that of another memory, with the value −v, so a change stops at −100 %.
    """
    change = (
        pl.col("change").cast(pl.Float64).clip(lower_bound=-1).mean()
        if mean == "of_ratios"
        else pl.col("mutated").cast(pl.Float64).clip(lower_bound=0).sum() / pl.col("coefficient").cast(pl.Float64).sum()
        - 1
    )
    keys = mutations.group_by("layer", "key", "mutation").agg(change.alias("change"), pl.len().alias("n"))
    return keys.sort("layer", "key", "mutation")


def between_ends(mutations: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the table `mutations` of triggers whose random token is neither the first nor the last."""
    removed, trigger = pl.col("removed"), ["layer", "key", "rank"]
    random = removed.filter(pl.col("mutation") == "random").first().over(trigger)
    return mutations.filter((random > removed.min().over(trigger)) & (random < removed.max().over(trigger)))


def near_zero_keys(mutations: pl.DataFrame, share: float = NEAR_ZERO["float32"]) -> pl.DataFrame:
    """Return the ``layer`` and ``key`` of keys with a trigger whose coefficient is near zero.

    The change of such a trigger is a ratio to almost zero and can be arbitrary. ``share``: of the layer's largest
    coefficient; see ``NEAR_ZERO``.
    """
    small = pl.col("coefficient") < share * pl.col("coefficient").max().over("layer")
    return mutations.filter(small).select("layer", "key").unique().sort("layer", "key")


def mutation_changes(
    mutations: pl.DataFrame, mean: str, seed: int | None, near_zero: float = NEAR_ZERO["float32"]
) -> pl.DataFrame:
    """E3, Figure 3: change over keys, per ``layer`` and ``mutation``.

    Columns: ``mean``, ``low``, ``high`` and ``n``, as in the paper. A key whose coefficients are near zero can
    outweigh all others in a mean of ratios, so there are also ``median``, ``trimmed`` (mean without a tenth of the keys
    at either end), ``near_zero`` (number of such keys) and ``others`` (mean without them, null if none is left).
    """
    keys = key_changes(mutations, mean)
    small = near_zero_keys(mutations, near_zero).with_columns(pl.lit(True).alias("small"))
    keys = keys.join(small, on=["layer", "key"], how="left", maintain_order="left")
    small_ = pl.col("small").fill_null(False)
    change, rank, cut = pl.col("change"), pl.col("change").rank("ordinal"), (pl.len() * TRIMMED).floor()
    robust = keys.group_by("layer", "mutation").agg(
        change.median().alias("median"),
        change.filter((rank > cut) & (rank <= pl.len() - cut)).mean().alias("trimmed"),
        small_.sum().alias("near_zero"),
        change.filter(~small_).mean().alias("others"),
    )
    return means(keys, ["layer", "mutation"], "change", seed).join(
        robust, on=["layer", "mutation"], how="left", maintain_order="left"
    )


def pattern_shares(labels: pl.DataFrame, seed: int | None) -> pl.DataFrame:
    """E2, Figure 2: share of triggers per layer and label, with intervals over keys; annotators are pooled."""
    parts = []
    for label in LABELS:
        keys = labels.group_by("layer", "key").agg(
            (pl.col("label") == label).mean().alias("share"), pl.len().alias("triggers")
        )
        for (layer,), part in keys.sort("layer", "key").group_by("layer", maintain_order=True):
            share, weight = part["share"].to_numpy(), part["triggers"].to_numpy()
            low, high = interval(share, seed, weight)
            parts.append((layer, label, float((share * weight).sum() / weight.sum()), low, high, int(weight.sum())))
    schema = {"layer": labels.schema["layer"], "label": pl.String(), **MEAN}
    return pl.DataFrame(parts, schema=schema, orient="row").sort("layer", "label")
