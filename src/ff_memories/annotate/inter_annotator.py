"""Measure agreement on trigger examples with several annotators, with intervals over keys."""

from collections.abc import Callable

import krippendorff
import numpy as np
from krippendorff.krippendorff import LevelOfMeasurement
from numpy.typing import DTypeLike

from ff_memories.base.draws import generator

RESAMPLES = 500
LABELS = ("shallow", "both", "semantic", "none")
SETS = [frozenset[str](types) for types in (["shallow"], ["shallow", "semantic"], ["semantic"], [])]  # as LABELS
Interval = tuple[float | None, float | None, float | None]


def masi(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the MASI distance of two sets (Passonneau 2006): 1 - Jaccard's index times a weight of their overlap."""
    if one == other:
        return 0.0
    both, all_ = len(one & other), len(one | other)
    weight = 2 / 3 if one <= other or other <= one else 1 / 3
    return 1 - both / all_ * (weight if both else 0)


DISTANCES = np.array([[masi(a, b) for b in SETS] for a in SETS])


def _masi_metric(
    v1: np.ndarray, v2: np.ndarray, i1: np.ndarray, i2: np.ndarray, n_v: np.ndarray, dtype: DTypeLike = np.float64
) -> np.ndarray:
    return DISTANCES[v1.astype(int), v2.astype(int)].astype(dtype)


def alpha_nominal(counts: np.ndarray) -> float | None:
    """Return Krippendorff's alpha for nominal labels. ``counts`` (units, labels): number of annotators."""
    return _alpha(counts, "nominal")


def alpha_masi(counts: np.ndarray) -> float | None:
    """Return Krippendorff's alpha for labels as sets of types: `both` is closer to `shallow` than `none` is."""
    return _alpha(counts, _masi_metric)


def _alpha(counts: np.ndarray, metric: LevelOfMeasurement) -> float | None:
    counts = _paired(counts)
    if not len(counts) or (counts.sum(0) > 0).sum() < 2:
        return None  # no pairs of annotators, or only one label
    domain = np.arange(counts.shape[1])
    return float(krippendorff.alpha(value_counts=counts, value_domain=domain, level_of_measurement=metric))


def gwet_ac1(counts: np.ndarray) -> float | None:
    """Return Gwet's AC1 (2008), which stays meaningful if nearly all labels are equal."""
    paired, rated = _paired(counts), counts[counts.sum(1) >= 1]
    if not len(paired):
        return None
    raters = paired.sum(1, keepdims=True)
    observed = (paired * (paired - 1) / (raters * (raters - 1))).sum(1).mean()
    share = (rated / rated.sum(1, keepdims=True)).mean(0)  # over all units, including those with one annotator
    chance = (share * (1 - share)).sum() / (counts.shape[1] - 1)
    return float((observed - chance) / (1 - chance))


def agreement(counts: np.ndarray) -> float | None:
    """Return the share of annotator pairs that gave a unit the same label."""
    counts = _paired(counts)
    if not len(counts):
        return None
    raters = counts.sum(1)
    return float((counts * (counts - 1)).sum(1).sum() / (raters * (raters - 1)).sum())


def _paired(counts: np.ndarray) -> np.ndarray:
    return counts[counts.sum(1) >= 2]


MEASURES: dict[str, Callable[[np.ndarray], float | None]] = {
    "agreement": agreement,
    "alpha_nominal": alpha_nominal,
    "alpha_masi": alpha_masi,
    "gwet_ac1": gwet_ac1,
}


def counted(labels: list[list[str]]) -> np.ndarray:
    """Return counts (units, labels) from each unit's labels."""
    out = np.zeros((len(labels), len(LABELS)), dtype=np.int64)
    for unit, given in enumerate(labels):
        for name in given:
            out[unit, LABELS.index(name)] += 1
    return out


def over_keys(keys: list[np.ndarray], seed: int, measure: str) -> Interval:
    """Return a measure with its 95 % bootstrap interval over keys. ``keys``: the ``counts`` of each key's prefixes."""
    function = MEASURES[measure]
    if not keys:
        return None, None, None
    value = function(np.concatenate(keys))
    rng = generator(seed, f"bootstrap of {measure}")
    resamples = (rng.integers(0, len(keys), len(keys)) for _ in range(RESAMPLES))
    values = [m for rows in resamples if (m := function(np.concatenate([keys[i] for i in rows]))) is not None]
    if value is None or not values:
        return value, None, None
    low, high = np.percentile(values, [2.5, 97.5])
    return value, float(low), float(high)
