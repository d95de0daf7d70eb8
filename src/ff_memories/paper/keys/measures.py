"""What claims and figures of the section measure, from its tables."""

import polars as pl

from ff_memories.judge.measures import NEAR_ZERO, means
from ff_memories.paper.keys.tables import MUTATION, relative_change

MUTATIONS = tuple(MUTATION.categories)
TRIMMED = 0.1  # share of the keys at either end
LABELS = ("shallow", "both", "semantic", "none")  # in the order of Figure 2's bars, bottom to top


def key_changes(mutations: pl.DataFrame, mean: str) -> pl.DataFrame:
    """Return each key's change of coefficient per mutation: ``layer``, ``key``, ``mutation``, ``change``, ``n``.

    ``mean`` is ``of_ratios`` (mean of its prefixes' changes) or ``of_sums`` (change of its summed coefficients). A
    coefficient below zero is that of another memory, with the value −v, so a change stops at −100 %.
    """
    change, mutated, coefficient = (pl.col(name).cast(pl.Float64) for name in ("change", "mutated", "coefficient"))
    sums = mutated.clip(lower_bound=0).sum(), coefficient.sum()
    change = change.clip(lower_bound=-1).mean() if mean == "of_ratios" else relative_change(*sums)
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
    changes = means(keys, ["layer", "mutation"], "change", seed)
    return changes.join(robust, on=["layer", "mutation"], how="left", maintain_order="left")


def pattern_shares(labels: pl.DataFrame, seed: int | None) -> pl.DataFrame:
    """E2, Figure 2: share of triggers per layer and label, with intervals over keys; annotators are pooled."""
    hits = {label: (pl.col("label") == label).mean() for label in LABELS}
    keys = (
        labels.group_by("layer", "key").agg(share=hit, triggers=pl.len()).with_columns(label=pl.lit(label))
        for label, hit in hits.items()
    )
    shares = means(pl.concat(keys).sort("layer", "key"), ["layer", "label"], "share", seed, "triggers")
    triggers = labels.group_by("layer").agg(n=pl.len())
    return shares.drop("n").join(triggers, on="layer", how="left", maintain_order="left")
