"""Measure what changing a memory does to the tokens that its value promotes, from the table `causal`.

This goes beyond the paper. All functions leave the last layer out: no layer runs above it, so ``total`` follows from
``direct`` there. Intervals resample memories, because a memory's rows at several prefixes depend on each other.

From the table `removals`: what removing several memories together does to predictions. Intervals resample prefixes.
"""

import numpy as np
import polars as pl
from scipy.stats import rankdata

from ff_memories.base.draws import RESAMPLES
from ff_memories.judge.measures import means
from ff_memories.judge.statistics import share_interval

KEYS = 1 << 20  # more than the keys of a layer, to number memories
SIZES = 20  # of direct effects that are told apart
CONTROLS = ("none", "matched", "direction")  # that change something at the memory's own prefix


def tested(causal: pl.DataFrame, layers: int) -> pl.DataFrame:
    """Return the rows of the intervention that controls take, below the last layer, of which ``direct`` is not zero.

    They gain ``memory``, a number of layer and key.
    """
    first = causal.filter(pl.col("control") != "none")["intervention"].head(1)
    rows = causal.filter((pl.col("layer") < layers) & (pl.col("direct") != 0))
    if len(first):
        rows = rows.filter(pl.col("intervention") == first[0])
    number = pl.col("layer").cast(pl.Int64) * KEYS + pl.col("key").cast(pl.Int64)
    return rows.with_columns(memory=number).sort("memory", "prefix", "control")


def paired(causal: pl.DataFrame, layers: int) -> pl.DataFrame:
    """Return each memory's prefixes with a matched control: ``layer``, ``memory``, ``kept``, ``matched``.

    ``kept`` and ``matched`` say whether ``total`` has the sign of ``direct``, of the memory and of the other one.
    ``size`` and ``matched_size`` are the sizes of ``direct``.
    """
    rows = tested(causal, layers).with_columns(kept=pl.col("direct") * pl.col("total") > 0, size=pl.col("direct").abs())
    of_other = pl.col("kept").alias("matched"), pl.col("size").alias("matched_size")
    matched = rows.filter(pl.col("control") == "matched").select("memory", "prefix", *of_other)
    itself = rows.filter(pl.col("control") == "none").select("layer", "memory", "prefix", "kept", "size")
    return itself.join(matched, on=["memory", "prefix"], maintain_order="left")


def at_equal_size(pairs: pl.DataFrame, seed: int | None) -> tuple[float, np.ndarray, int]:
    """Return how much more often memories keep their sign than matched ones with a direct effect of the same size.

    Both, of ``paired``, are compared within twentieths of all sizes, each weighted by the smaller of both numbers of
    rows; where one of them has none, they do not count. In fifths, sizes that differ twentyfold would still make 6
    points of difference. Also returns resamples (draws,) over memories, and how many rows can be compared.
    """
    sizes = [pairs[name].cast(pl.Float64).to_numpy() for name in ("size", "matched_size")]
    edges = np.quantile(np.concatenate(sizes), np.linspace(0, 1, SIZES + 1)[1:-1])
    memory = pairs["memory"].rank("dense").to_numpy() - 1
    shape = int(memory.max()) + 1, SIZES
    cells = [memory * SIZES + np.searchsorted(edges, size) for size in sizes]
    kept = [pairs[name].cast(pl.Float64).to_numpy() for name in ("kept", "matched")]
    rows = [np.bincount(cell, minlength=shape[0] * SIZES).reshape(shape) for cell in cells]
    hits = [np.bincount(cell, of, shape[0] * SIZES).reshape(shape) for cell, of in zip(cells, kept, strict=True)]
    weight = np.minimum(rows[0].sum(0), rows[1].sum(0))
    if not weight.sum():
        return float("nan"), np.empty(0), 0

    def difference(memories: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            own, other = (hit[memories].sum(1) / row[memories].sum(1) for hit, row in zip(hits, rows, strict=True))
        of = np.where(np.isnan(own - other), 0, weight)
        total = (np.nan_to_num(own - other) * of).sum(1)
        return np.divide(total, of.sum(1), where=of.sum(1) > 0, out=np.zeros(len(of)))

    every = np.arange(shape[0])[None]
    return float(difference(every)[0]), difference(drawn_memories(shape[0], seed)), int(weight.sum())


def effects(causal: pl.DataFrame, layers: int) -> pl.DataFrame:
    """Return what becomes of each memory's direct effect: one row per memory and control that has rows.

    Columns: ``layer``, ``memory``, ``control``, ``n`` prefixes, ``size`` (the sum of the memory's own |direct|),
    ``share`` (the sum of ``total`` in the direction of the memory's own ``direct``, over ``size``), and the means of
    ``direct`` and ``total``.
    """
    rows = tested(causal, layers)
    own_direct = rows.filter(pl.col("control") == "none").select("memory", "prefix", wanted="direct")
    towards = pl.col("total").cast(pl.Float64) * pl.col("wanted").sign()
    size = pl.col("wanted").cast(pl.Float64).abs().sum()
    return (
        rows.filter(pl.col("control").is_in(CONTROLS))
        .join(own_direct, on=["memory", "prefix"], maintain_order="left")
        .group_by("layer", "memory", "control", maintain_order=True)
        .agg(
            n=pl.len(),
            size=size,
            share=towards.sum() / size,
            direct=pl.col("direct").cast(pl.Float64).mean(),
            total=pl.col("total").cast(pl.Float64).mean(),
        )
        .sort("layer", "memory", "control")
    )


def shares(causal: pl.DataFrame, layers: int, seed: int | None) -> pl.DataFrame:
    """Figure B1: the share of the direct effect that is left, per ``layer`` and ``control``, over memories by size.

    Columns: ``mean``, ``low``, ``high`` and ``n``, the number of memories.
    """
    memories = effects(causal, layers).with_columns(pl.col("control").cast(pl.String))
    return means(memories, ["layer", "control"], "share", seed, "size")


def ranks(causal: pl.DataFrame, layers: int) -> pl.DataFrame:
    """Return the memories' rows with ranks of ``direct`` and ``total`` within their layer, from -1 to 1."""
    rows = tested(causal, layers).filter(pl.col("control") == "none")
    rank = pl.col("direct", "total").rank()
    return rows.select("layer", "memory", ((rank * 2 - pl.len() - 1) / pl.len()).over("layer"))


def drawn_memories(n: int, seed: int | None) -> np.ndarray:
    """Return resamples (draws, n) of the numbers of ``n`` memories; none without a seed."""
    if seed is None or not n:
        return np.empty((0, n), dtype=np.int64)
    return np.random.default_rng(seed).integers(0, n, size=(RESAMPLES, n))


def rank_correlations_of_pairs(x: np.ndarray, y: np.ndarray, resampled: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation (draws,) of ``x`` and ``y`` (n,), 0 where one side of a resample is constant."""
    a, b = (rankdata(side[resampled], axis=1) - (resampled.shape[1] + 1) / 2 for side in (x, y))
    size = np.sqrt((a**2).sum(1) * (b**2).sum(1))
    return np.divide((a * b).sum(1), size, out=np.zeros(len(resampled)), where=size > 0)


def lost(removals: pl.DataFrame, seed: int | None) -> pl.DataFrame:
    """Figure B3: how often a prediction changes without a layer's largest memories, over prefixes.

    Columns: ``layer``, ``series`` (whose prediction: that of the ``layer``, or of the ``model``), ``removed`` (how many
    memories), ``mean``, ``low``, ``high`` and ``n``, the number of prefixes.
    """
    rows = removals.filter(pl.col("by") == "size").sort("prefix")
    changed = (
        rows.select("layer", "removed", pl.lit(series).alias("series"), pl.col(column).alias("changed"))
        for series, column in (("layer", "layer_top_changed"), ("model", "top_changed"))
    )
    by = ["layer", "series", "removed"]
    return means(pl.concat(changed), by, "changed", seed, between=share_interval)
