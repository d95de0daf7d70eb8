"""Compute the paper's measures from the tables: one function per figure, shared by figures, claims and report.

Every function takes tables and returns a small sorted frame with one row per mark of its figure. Shares are fractions
in 0..1, changes are fractions (−0.5 = half), and intervals are 95 % bootstrap intervals over keys or examples.
"""

import polars as pl

from ff_memories.base.arithmetic import ROUNDOFF, Precision
from ff_memories.base.draws import interval
from ff_memories.tables import KIND, MUTATION

MUTATIONS = tuple(MUTATION.categories)
KINDS = tuple(KIND.categories)
LABELS = ("shallow", "both", "semantic", "none")  # in the order of Figure 2's bars, bottom to top
TRIMMED = 0.1  # share of the keys at either end
# A coefficient below this share of its layer's largest one counts as near zero. Ratios to it can reach the hundreds,
# and in tf32 and bfloat16 rounding may change them by a tenth.
NEAR_ZERO: dict[Precision, float] = {
    "float32": 1e-3,
    "tf32": 20 * ROUNDOFF["tf32"],
    "bfloat16": 20 * ROUNDOFF["bfloat16"],
}
_MEAN = {"mean": pl.Float64(), "low": pl.Float64(), "high": pl.Float64(), "n": pl.UInt32()}


def means(frame: pl.DataFrame, by: list[str], value: str, seed: int | None) -> pl.DataFrame:
    """Return the mean of ``value`` per group with its interval: columns ``by``, ``mean``, ``low``, ``high``, ``n``."""
    rows = []
    for group, part in frame.drop_nulls(value).sort(by, maintain_order=True).group_by(by, maintain_order=True):
        values = part[value].cast(pl.Float64).to_numpy()
        rows.append((*group, float(values.mean()), *interval(values, seed), len(values)))
    schema = {b: frame.schema[b] for b in by} | _MEAN
    return pl.DataFrame(rows, schema=schema, orient="row")


def boxes(frame: pl.DataFrame, value: str) -> pl.DataFrame:
    """Return quartiles and whiskers (the last datum within 1.5 IQR) of ``value`` per layer."""
    value_ = pl.col(value).cast(pl.Float64)
    edges = (
        frame.drop_nulls(value)
        .group_by("layer")
        .agg(
            value_.quantile(0.25, "linear").alias("q1"),
            value_.median().alias("median"),
            value_.quantile(0.75, "linear").alias("q3"),
            pl.len().alias("n"),
        )
    )
    reach = 1.5 * (pl.col("q3") - pl.col("q1"))
    return (
        frame.drop_nulls(value)
        .join(edges, on="layer")
        .group_by("layer", "q1", "median", "q3", "n")
        .agg(
            value_.filter(value_ >= pl.col("q1") - reach).min().alias("low"),
            value_.filter(value_ <= pl.col("q3") + reach).max().alias("high"),
        )
        .select("layer", "low", "q1", "median", "q3", "high", "n")
        .sort("layer")
    )


def key_changes(mutations: pl.DataFrame, mean: str) -> pl.DataFrame:
    """Return each key's change of coefficient per mutation: ``layer``, ``key``, ``mutation``, ``change``, ``n``.

    ``mean`` is ``of_ratios`` (mean of its prefixes' changes) or ``of_sums`` (change of its summed coefficients).
    """
    change = (
        pl.col("change").cast(pl.Float64).mean()
        if mean == "of_ratios"
        else pl.col("mutated").cast(pl.Float64).sum() / pl.col("coefficient").cast(pl.Float64).sum() - 1
    )
    keys = mutations.group_by("layer", "key", "mutation").agg(change.alias("change"), pl.len().alias("n"))
    return keys.sort("layer", "key", "mutation")


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


def agreement(values: pl.DataFrame, seed: int | None) -> pl.DataFrame:
    """E4, Figure 4: share of values whose top token is the target of their key's top trigger, per layer."""
    return means(values, ["layer"], "agrees", seed)


def chance_agreement(frame: pl.DataFrame, prediction: str, target: str) -> pl.DataFrame:
    """Return per ``layer`` how often randomly paired predictions and targets would be equal: ``chance``.

    This is the expectation over all pairings within a layer, in closed form: the sum over tokens of the share of
    predictions that are the token times the share of targets that are.
    """
    known = frame.drop_nulls([prediction, target])

    def shares(column: str, name: str) -> pl.DataFrame:
        counted = known.group_by("layer", pl.col(column).alias("token")).agg(pl.len().alias(name))
        return counted.with_columns(pl.col(name) / pl.col(name).sum().over("layer"))

    both = shares(prediction, "predicted").join(shares(target, "wanted"), on=["layer", "token"])
    chances = both.group_by("layer").agg((pl.col("predicted") * pl.col("wanted")).sort().sum().alias("chance"))
    layers = known.select("layer").unique().sort("layer")
    return layers.join(chances, on="layer", how="left", maintain_order="left").with_columns(
        pl.col("chance").fill_null(0.0)
    )


def next_token_ranks(values: pl.DataFrame) -> pl.DataFrame:
    """E5, Figure 5: quartiles of the target's rank in the value's distribution, per layer (0 = top)."""
    return boxes(values, "next_token_rank")


def agreement_by_probability(values: pl.DataFrame, bins: int, seed: int | None) -> pl.DataFrame:
    """E6, Figure 6: agreement per bin of the value's top probability: ``bin`` (right edge), ``left``, means.

    The bins have equal width on [0, max]; empty bins are left out.
    """
    binned = by_probability(values, bins)
    if binned.is_empty():
        return pl.DataFrame(schema={"left": pl.Float64(), "bin": pl.Float64(), **_MEAN})
    out = means(binned, ["bin"], "agrees", seed)
    return out.select((pl.col("bin") - binned["width"][0]).alias("left"), pl.all())


def by_probability(values: pl.DataFrame, bins: int) -> pl.DataFrame:
    """Return the values with a target, with the right edge of their ``bin`` and the bins' ``width``.

    There are ``bins`` bins of equal width on [0, max] of the top probability.
    """
    known = values.drop_nulls("agrees")
    most = float(known["top_probability"].to_numpy().max()) if len(known) else 1.0
    width = most / bins
    index = (pl.col("top_probability").cast(pl.Float64) / width).ceil().clip(1, bins)
    return known.with_columns((index * width).alias("bin"), pl.lit(width).alias("width"))


def predictive_values(values: pl.DataFrame, most: int = 100) -> pl.DataFrame:
    """E7, Table 2: the values with the highest top probability, with ``precision`` = agreeing_triggers / triggers."""
    ordered = values.sort(["top_probability", "layer", "key"], descending=[True, False, False]).head(most)
    return ordered.with_columns(
        pl.when(pl.col("triggers") > 0).then(pl.col("agreeing_triggers") / pl.col("triggers")).alias("precision")
    )


def active_memories(composition: pl.DataFrame, keys: int) -> pl.DataFrame:
    """E8, Figure 7: quartiles of the share of active memories (coefficient > 0) of ``keys`` per layer."""
    return boxes(composition.with_columns((pl.col("active") / keys).alias("share")), "share")


def effective_memories(composition: pl.DataFrame) -> pl.DataFrame:
    """Return quartiles per layer of the effective number of memories, (sum e)^2 / sum e^2 with e = (m |v|)^2."""
    return boxes(composition, "effective")


def zero_agreement(composition: pl.DataFrame, seed: int | None) -> pl.DataFrame:
    """E9, Figure 8: share of examples where no memory predicts what its layer predicts."""
    return means(composition.with_columns((pl.col("agreeing_memories") == 0).alias("zero")), ["layer"], "zero", seed)


def agreeing_cases(
    composition: pl.DataFrame, examples: pl.DataFrame, stop_words: frozenset[int], prediction: str = "ffn_top"
) -> pl.DataFrame:
    """E10: for every example and layer, whether a memory agrees, and which tokens are stop words.

    Columns: ``example``, ``layer``, ``agrees``, ``is_stop_word``, ``next_is_stop_word`` (null if the sentence
    ends), ``position``.
    """
    words = pl.Series(sorted(stop_words), dtype=pl.UInt32).implode()
    pairs = composition.join(examples.select("example", "position", "next_token"), on="example", maintain_order="left")
    return pairs.select(
        "example",
        "layer",
        (pl.col("agreeing_memories") > 0).alias("agrees"),
        pl.col(prediction).is_in(words).alias("is_stop_word"),
        pl.col("next_token").is_in(words).alias("next_is_stop_word"),
        "position",
    )


def agreeing_by_layer(cases: pl.DataFrame, shorter_than: int) -> pl.DataFrame:
    """E10, by layer: shares among the pairs with an agreeing memory, and among all pairs.

    Columns: ``layer``, ``pairs``, ``agreeing``, then two shares each for ``stop_word``, ``next_stop_word`` and
    ``short``: ``agreeing_...``, null if no memory agrees, and ``every_...``, the base rate.
    """
    hits = {
        "stop_word": pl.col("is_stop_word"),
        "next_stop_word": pl.col("next_is_stop_word"),
        "short": pl.col("position") < shorter_than,
    }
    return (
        cases.group_by("layer")
        .agg(
            pl.len().alias("pairs"),
            pl.col("agrees").sum().alias("agreeing"),
            *(hit.filter(pl.col("agrees")).mean().alias(f"agreeing_{name}") for name, hit in hits.items()),
            *(hit.mean().alias(f"every_{name}") for name, hit in hits.items()),
        )
        .sort("layer")
    )


def residual_predicts(refinement: pl.DataFrame, seed: int | None) -> pl.DataFrame:
    """E11, Figure 9: share of examples whose residual predicts the model's output, per layer."""
    hit = (pl.col("residual_top") == pl.col("model_top")).alias("hit")
    return means(refinement.with_columns(hit), ["layer"], "hit", seed)


def residual_probabilities(refinement: pl.DataFrame) -> pl.DataFrame:
    """E12, Figure 10: quartiles of the model's output token's probability under the residual, per layer."""
    return boxes(refinement, "residual_probability")


def refinement_kinds(refinement: pl.DataFrame, seed: int | None) -> pl.DataFrame:
    """E13, Figure 11: share of examples per layer and kind: ``layer``, ``kind``, ``mean``, ``low``, ``high``, ``n``."""
    parts = [
        means(refinement.with_columns((pl.col("kind") == kind).alias("is")), ["layer"], "is", seed).with_columns(
            pl.lit(kind, dtype=pl.String).alias("kind")
        )
        for kind in KINDS
    ]
    return pl.concat(parts).select("layer", "kind", "mean", "low", "high", "n").sort("layer", "kind")


def pattern_shares(labels: pl.DataFrame, seed: int | None) -> pl.DataFrame:
    """E2, Figure 2: share of triggers per layer and label, with intervals over keys; annotators are pooled."""
    parts = []
    for label in LABELS:
        keys = labels.group_by("annotator", "layer", "key").agg(
            (pl.col("label") == label).mean().alias("share"), pl.len().alias("triggers")
        )
        for (layer,), part in keys.sort("layer", "annotator", "key").group_by("layer", maintain_order=True):
            share, weight = part["share"].to_numpy(), part["triggers"].to_numpy()
            low, high = interval(share, seed, weight)
            parts.append((layer, label, float((share * weight).sum() / weight.sum()), low, high, int(weight.sum())))
    schema = {"layer": labels.schema["layer"], "label": pl.String(), **_MEAN}
    return pl.DataFrame(parts, schema=schema, orient="row").sort("layer", "label")
