"""What claims and figures of the section measure, from its tables."""

import numpy as np
import polars as pl
from scipy.special import gammaln

from ff_memories.judge.measures import boxes, means
from ff_memories.paper.layers.tables import KIND

KINDS = tuple(KIND.categories)


def active_memories(composition: pl.DataFrame, keys: int) -> pl.DataFrame:
    """E8, Figure 7: quartiles of the share of active memories (coefficient > 0) of ``keys`` per layer."""
    return boxes(composition.with_columns((pl.col("active") / keys).alias("share")), "share")


def zero_agreement(composition: pl.DataFrame, seed: int | None) -> pl.DataFrame:
    """E9, Figure 8: share of examples where no memory predicts what its layer predicts."""
    return means(composition.with_columns((pl.col("agreeing_memories") == 0).alias("zero")), ["layer"], "zero", seed)


def zero_agreement_by_chance(composition: pl.DataFrame, values: pl.DataFrame, prediction: str) -> pl.DataFrame:
    """Return how often no memory would agree with its layer if as many were active, but at random: ``chance``.

    If c of a layer's M values predict what the layer predicts, and a of its memories are active, the chance that none
    of the a is among the c is C(M − c, a) / C(M, a). One row per ``example`` and ``layer``.
    """
    counted = values.group_by("layer", pl.col("top_token").alias(prediction)).agg(same=pl.len())
    rows = (
        composition.select("example", "layer", "active", prediction)
        .join(values.group_by("layer").agg(memories=pl.len()), on="layer", maintain_order="left")
        .join(counted, on=["layer", prediction], how="left", maintain_order="left")
        .with_columns(pl.col("same").fill_null(0))
    )
    memories, same, active = (rows[name].to_numpy().astype(np.float64) for name in ("memories", "same", "active"))
    left = memories - same - active
    log = gammaln(memories - same + 1) + gammaln(memories - active + 1) - gammaln(np.maximum(left, 0) + 1)
    chance = np.where(left < 0, 0.0, np.exp(log - gammaln(memories + 1)))
    return rows.select("example", "layer").with_columns(chance=pl.Series(chance))


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
    by_layer = cases.group_by("layer").agg(
        pl.len().alias("pairs"),
        pl.col("agrees").sum().alias("agreeing"),
        *(hit.filter(pl.col("agrees")).mean().alias(f"agreeing_{name}") for name, hit in hits.items()),
        *(hit.mean().alias(f"every_{name}") for name, hit in hits.items()),
    )
    return by_layer.sort("layer")


def residual_predicts(refinement: pl.DataFrame, seed: int | None) -> pl.DataFrame:
    """E11, Figure 9: share of examples whose residual predicts the model's output, per layer."""
    hit = (pl.col("residual_top") == pl.col("model_top")).alias("hit")
    return means(refinement.with_columns(hit), ["layer"], "hit", seed)
