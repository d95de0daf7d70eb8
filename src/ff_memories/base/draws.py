"""Random draws, one generator per purpose, so no draw affects another; and the bootstrap interval of a mean."""

import zlib
from collections.abc import Sequence

import numpy as np

RESAMPLES, BLOCK = 1000, 100


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Return the generator for one purpose; the same seed gives the same draws on every machine."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


def interval(values: np.ndarray, seed: int | None, weights: np.ndarray | None = None) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a mean: percentiles over resamples of independent units (n,), such as keys.

    Without a seed it is NaN. With weights (n,), the mean is a ratio of sums, sum(values * weights) / sum(weights).
    """
    return ends(resamples(values, seed, weights))


def ends(draws: np.ndarray, outside: float = 0.05) -> tuple[float, float]:
    """Return the percentiles of the resamples with half of ``outside`` beyond each; NaN if there are none."""
    if np.isnan(draws).all():
        return float("nan"), float("nan")
    low, high = np.nanpercentile(draws, [50 * outside, 100 - 50 * outside])
    return float(low), float(high)


def resamples(values: np.ndarray, seed: int | Sequence[int] | None, weights: np.ndarray | None = None) -> np.ndarray:
    """Return (``RESAMPLES``,) means of resampled values (see ``interval``); an empty array without a seed."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) == 0 or seed is None:
        return np.empty(0)
    rng = np.random.default_rng(seed)
    if weights is None:
        distinct, counts = np.unique(values, return_counts=True)
        if 4 * len(distinct) <= len(values):  # the same distribution: a share's resamples are binomial
            return rng.multinomial(len(values), counts / len(values), size=RESAMPLES) @ distinct / len(values)
        size = (BLOCK, len(values))
        return np.concatenate([values[rng.integers(0, len(values), size)].mean(1) for _ in range(RESAMPLES // BLOCK)])
    means, weights = np.empty(RESAMPLES), np.asarray(weights, dtype=np.float64)
    for start in range(0, RESAMPLES, BLOCK):
        draw = rng.integers(0, len(values), size=(BLOCK, len(values)))
        drawn_weights = weights[draw]
        sums, total = (values[draw] * drawn_weights).sum(1), drawn_weights.sum(1)
        means[start : start + BLOCK] = np.divide(sums, total, out=np.full(BLOCK, np.nan), where=total > 0)
    return means
