"""Compute the paper's measures from the tables: one function per figure, shared by figures, claims and report.

Every function takes tables and returns a small sorted frame with one row per mark of its figure. Shares are fractions
in 0..1, changes are fractions (−0.5 = half), and intervals are 95 % bootstrap intervals over keys or examples.
"""

from collections.abc import Callable, Iterable

import polars as pl

from ff_memories.base.arithmetic import ROUNDOFF, Precision
from ff_memories.base.draws import interval

# A coefficient below this share of its layer's largest one counts as near zero. Ratios to it can reach the hundreds,
# and in tf32 and bfloat16 rounding may change them by a tenth.
NEAR_ZERO: dict[Precision, float] = {
    "float32": 1e-3,
    "tf32": 20 * ROUNDOFF["tf32"],
    "bfloat16": 20 * ROUNDOFF["bfloat16"],
}
MEAN = {"mean": pl.Float64(), "low": pl.Float64(), "high": pl.Float64(), "n": pl.UInt32()}


def means(
    frame: pl.DataFrame,
    by: list[str],
    value: str,
    seed: int | None,
    weight: str | None = None,
    between: Callable[..., tuple[float, float]] = interval,
) -> pl.DataFrame:
    """Return the mean of ``value`` per group with its interval: columns ``by``, ``mean``, ``low``, ``high``, ``n``.

    ``weight``: a column of weights; the mean is then sum(value * weight) / sum(weight). ``between``: which interval.
    """
    rows = []
    for group, part in frame.drop_nulls(value).sort(by, maintain_order=True).group_by(by, maintain_order=True):
        values = part[value].cast(pl.Float64).to_numpy()
        weights = [] if weight is None else [part[weight].to_numpy()]
        mean = (values * weights[0]).sum() / weights[0].sum() if weights else values.mean()
        rows.append((*group, float(mean), *between(values, seed, *weights), len(values)))
    schema = {b: frame.schema[b] for b in by} | MEAN
    return pl.DataFrame(rows, schema=schema, orient="row")


def spread(frames: Iterable[pl.DataFrame], by: list[str], value: str, name: str) -> pl.DataFrame:
    """Return per group the mean of ``value`` over several models' frames, ``name``, and its extremes, with suffixes."""
    of_models = pl.col(value)
    ends = of_models.min().alias(f"{name}_low"), of_models.max().alias(f"{name}_high")
    return pl.concat(frames).group_by(by).agg(of_models.sort().mean().alias(name), *ends)


def boxes(frame: pl.DataFrame, value: str) -> pl.DataFrame:
    """Return quartiles and whiskers (the last datum within 1.5 IQR) of ``value`` per layer."""
    values = pl.col(value).cast(pl.Float64)
    q1, q3 = (values.quantile(at, "linear") for at in (0.25, 0.75))
    reach = 1.5 * (q3 - q1)
    columns = {
        "low": values.filter(values >= q1 - reach).min(),
        "q1": q1,
        "median": values.median(),
        "q3": q3,
        "high": values.filter(values <= q3 + reach).max(),
        "n": pl.len(),
    }
    return frame.drop_nulls(value).group_by("layer").agg(**columns).sort("layer")


def chance_agreement(frame: pl.DataFrame, prediction: str, target: str) -> pl.DataFrame:
    """Return per ``layer`` how often randomly paired predictions and targets would be equal: ``chance``.

    This is the expectation over all pairings within a layer, in closed form: the sum over tokens of the share of
    predictions that are the token times the share of targets that are.
    """
    paired = frame.drop_nulls([prediction, target])

    def shares(column: str, name: str) -> pl.DataFrame:
        counted = paired.group_by("layer", pl.col(column).alias("token")).agg(pl.len().alias(name))
        return counted.with_columns(pl.col(name) / pl.col(name).sum().over("layer"))

    both = shares(prediction, "predicted").join(shares(target, "wanted"), on=["layer", "token"])
    chances = both.group_by("layer").agg((pl.col("predicted") * pl.col("wanted")).sort().sum().alias("chance"))
    layers = paired.select("layer").unique().sort("layer")
    every = layers.join(chances, on="layer", how="left", maintain_order="left")
    return every.with_columns(pl.col("chance").fill_null(0.0))
