"""What claims and figures of the section measure, from its tables."""

import numpy as np
import polars as pl

from ff_memories.judge.measures import chance_agreement, means


def agreement(values: pl.DataFrame, seed: int | None) -> pl.DataFrame:
    """E4, Figure 4: share of values whose top token is the target of their key's top trigger, per layer."""
    return means(values, ["layer"], "agrees", seed)


def over_chance(values: pl.DataFrame, layers: list[int]) -> tuple[int, float]:
    """Return how many values of some layers agree, and how many would if keys and values were paired at random.

    The second is the expectation over all pairings within each layer, in closed form.
    """
    known = values.drop_nulls("agrees").filter(pl.col("layer").is_in(layers))
    chances = chance_agreement(known, "top_token", "next_token")
    chances = chances.join(known.group_by("layer").len(), on="layer", maintain_order="left")
    return int(known["agrees"].sum()), float((chances["chance"] * chances["len"]).sum())


def in_random_pairs(values: pl.DataFrame) -> np.ndarray:
    """Return (n,) how often each value would agree with the key of another value of its layer, for ``next_token``."""
    wanted = values.group_by("layer", top_token="next_token").agg(same=pl.len())
    rows = values.join(wanted, on=["layer", "top_token"], how="left", maintain_order="left")
    return rows.select(pl.col("same").fill_null(0) / pl.len().over("layer")).to_series().to_numpy()


def predictive_values(values: pl.DataFrame, most: int = 100) -> pl.DataFrame:
    """E7, Table 2: the values with the highest top probability, with ``precision`` = agreeing_triggers / triggers."""
    ordered = values.sort(["top_probability", "layer", "key"], descending=[True, False, False]).head(most)
    precision = pl.when(pl.col("triggers") > 0).then(pl.col("agreeing_triggers") / pl.col("triggers"))
    return ordered.with_columns(precision=precision)
