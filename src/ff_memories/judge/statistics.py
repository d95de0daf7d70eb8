"""Compute statistics that several checks share, and map the paper's layers to a model of any depth.

Layer l of L corresponds to 16 l / L of the paper's 16.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from scipy.stats import binom, binomtest, norm, spearmanr, t

from ff_memories.base.draws import BLOCK, interval, resamples
from ff_memories.judge.measurement import Judged, Limit

Share = tuple[float, float, float]  # with its 95 % interval
Sides = tuple[float, float]  # p-values that something does not hold, and that its opposite does not
OUTSIDE = 0.05  # share of the resamples outside an interval, half at either end
MEDIANS = 400  # resamples of medians, which cost more than means
PAPER = 16  # layers
RESAMPLES = 4000  # for joint lower ends of many layers, which are extreme quantiles of each


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Spearman's correlation; ``None`` for fewer than three points or if one side is constant."""
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return float(spearmanr(x, y).statistic)


def by_layer(frame: pl.DataFrame, column: str) -> dict[int, float]:
    """Return a column of a frame with one row per layer as {layer: value}, without nulls."""
    return dict(frame.drop_nulls(column).select("layer", column).iter_rows())


def average(values: Mapping[int, float], layers: Sequence[int]) -> float | None:
    """Return the mean over those of ``layers`` that have a value; ``None`` if none has."""
    measured = [values[layer] for layer in layers if layer in values]
    return sum(measured) / len(measured) if measured else None


def share_interval(hits: np.ndarray, seed: int | None) -> tuple[float, float]:
    """Return the 95 % interval of a share: the bootstrap's, or Wilson's if no unit (n,) or every unit is a hit."""
    return interval(hits, seed) if 0 < hits.mean() < 1 else wilson(int(np.count_nonzero(hits)), len(hits))


def surely(p_values: Sequence[float]) -> int:
    """Return the lower end of the 95 % interval of the number of layers in which something holds.

    Percentiles of resampled numbers would be wrong: a number at its highest can only fall. So each layer is tested
    instead (partial conjunction, with Hochberg's levels): at least u of n layers hold if n − u + 1 times the u-th
    smallest of their p-values is below the level.
    """
    clear = np.arange(len(p_values), 0, -1) * np.sort(p_values) <= OUTSIDE / 2
    return int(np.flatnonzero(clear).max(initial=-1)) + 1


def wilson(cases: int, n: int, outside: float = OUTSIDE) -> tuple[float, float]:
    """Return Wilson's score interval of a share of ``cases`` in ``n`` independent units.

    Use it where a bootstrap fails: every resample of no cases has no cases, as if the share were exactly zero. Wilson's
    interval then ends at z²/(n + z²), at 95 % about 3.8/n.
    """
    if n == 0:
        return float("nan"), float("nan")
    low, high = binomtest(cases, n).proportion_ci(1 - outside, method="wilson")
    return float(low), float(high)


def clustered_shares(frame: pl.DataFrame, hit: str, unit: str, seed: int | None, draws: int = RESAMPLES) -> np.ndarray:
    """Return resamples (draws, layers) of each layer's share of hits, resampling whole units of all layers together.

    Values with one top token are such a unit: they agree or not together (a cluster bootstrap). An example is one with
    all its layers. Where a resample has no row of a layer, its share is as measured. No seed, no draws.
    """
    layers = frame["layer"].unique().sort()
    if seed is None or frame.is_empty():
        return np.empty((0, len(layers)))
    units = frame[unit].rank("dense").to_numpy() - 1
    at = np.searchsorted(layers.to_numpy(), frame["layer"].to_numpy())
    size = int(units.max()) + 1, len(layers)
    cell = units * size[1] + at
    rows = np.bincount(cell, minlength=size[0] * size[1]).reshape(size)
    hits = np.bincount(cell, frame[hit].cast(pl.Float64).to_numpy(), size[0] * size[1]).reshape(size)
    both = np.hstack([hits, rows]).astype(np.float32)  # exact for integers up to 16 million
    sums = np.concatenate([counts @ both for counts in _resampled(len(both), seed, draws)]).astype(np.float64)
    cases, of = np.hsplit(sums, 2)
    return np.where(of > 0, cases / np.maximum(of, 1), hits.sum(0) / np.maximum(rows.sum(0), 1))


def area_under_curve(
    score: np.ndarray, hit: np.ndarray, unit: np.ndarray, seed: int | None
) -> tuple[float, np.ndarray]:
    """Return the area under the ROC curve of a score for hits, (n,) each, and resamples (draws,) of it over units (n,).

    The area is the chance that a hit has a higher score than another row, ties counting half; NaN without either sort.
    """
    level = np.unique(score, return_inverse=True)[1]
    _, group = np.unique(unit, return_inverse=True)
    ones = np.ones((1, int(group.max(initial=-1)) + 1), np.float32)
    counts = [ones] if seed is None else [ones, *_resampled(ones.shape[1], seed, MEDIANS)]

    weights = (drawn[group].astype(np.float64) for block in counts for drawn in block)
    first, *draws = (_area(level, np.where(hit, weight, 0), np.where(hit, 0, weight)) for weight in weights)
    return first, np.array(draws)


def area_by_chance(score: np.ndarray, chance: np.ndarray) -> float:
    """Return the area under the ROC curve if each row is a hit with its own ``chance`` (n,), by expected numbers."""
    return _area(np.unique(score, return_inverse=True)[1], chance, 1 - chance)


def _area(level: np.ndarray, hit: np.ndarray, other: np.ndarray) -> float:
    """Return the area for rows with ranked scores (``level``) that count as hits and as others by these weights."""
    hits, others = (np.bincount(level, weight) for weight in (hit, other))
    pairs = hits.sum() * others.sum()
    return float((hits * (np.cumsum(others) - others / 2)).sum() / pairs) if pairs else float("nan")


def lowest_of_joint(hits: pl.DataFrame, seed: int | None) -> tuple[float, float]:
    """Return the 95 % interval of the lowest of several layers' shares, measured on the same examples.

    Examples are resampled with all their rows, at most one per layer: ``example``, ``layer`` and ``hit``.
    """
    missed = (~pl.col("hit").cast(pl.Boolean)).sum() / pl.len()  # the lowest share of hits is the highest of misses
    layers = hits.group_by("layer").agg(missed=missed, rows=pl.len()).sort("layer")
    draws = 1 - clustered_shares(hits, "hit", "example", seed)
    low, high = highest(layers["missed"].to_numpy(), layers["rows"].to_numpy(), draws)
    return 1 - high, 1 - low


def joint_medians(frame: pl.DataFrame, value: str, seed: int | None) -> np.ndarray:
    """Return resamples (draws, layers) of each layer's median of ``value``, resampling examples with all their layers.

    ``frame``: ``example``, ``layer`` and ``value``, with a row for every example and layer.
    """
    of_layers = frame.sort("layer", "example").partition_by("layer", maintain_order=True)
    values = (part[value].cast(pl.Float64).to_numpy() for part in of_layers)
    return np.stack([medians(of_layer, seed) for of_layer in values], axis=1)  # a seed draws the same examples


def medians(values: np.ndarray, seed: int | None) -> np.ndarray:
    """Return resamples (draws,) of the lower median of independent units."""
    if seed is None or not len(values):
        return np.empty(0)
    order, blocks = np.argsort(values, kind="stable"), _resampled(len(values), seed, MEDIANS)
    at = [(np.cumsum(counts[:, order], axis=1) >= len(values) / 2).argmax(1) for counts in blocks]
    return values[order][np.concatenate(at)]


def within_layers(frame: pl.DataFrame, value: str, seed: int | None) -> dict[int, np.ndarray]:
    """Return resamples (draws,) of the mean of ``value`` in each layer, resampling each layer's rows separately."""
    rows = frame.drop_nulls(value).sort("layer", maintain_order=True)
    return {
        layer: resamples(part[value].to_numpy(), None if seed is None else [seed, number])
        for number, ((layer,), part) in enumerate(rows.group_by("layer", maintain_order=True))
    }


def sign_test(cases: int, n: int) -> Sides:
    """Return the exact p-values that of ``n`` units not more than half are cases, and that not fewer are."""
    return float(binom.sf(cases - 1, n, 0.5)), float(binom.cdf(cases, n, 0.5))


def below_zero(values: np.ndarray, ties: bool = False) -> Sides | None:
    """Return the p-values of Student's test that the mean of values (n,) is not below zero, and that it is not above.

    ``None`` for one value, which has no spread. Resamples of few values have too light tails for tests of many layers.
    ``ties``: whether zero itself counts as below.
    """
    if len(values) < 2:
        return None
    mean, error = float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5
    without_spread = float(mean > 0 or (mean == 0 and not ties))
    p = float(t.cdf(mean / error, len(values) - 1)) if error else without_spread
    return p, 1 - p


def expanded(draws: np.ndarray, mean: float, n: int) -> np.ndarray:
    """Return resamples of the mean of ``n`` units, at least two, with the spread of Student's t.

    Resamples of few units spread too little: with five, a test at 2.5 % errs in 8 % (Hesterberg 2015 expands
    percentiles for the same reason).
    """
    wider = (n / (n - 1)) ** 0.5 * t.ppf(1 - OUTSIDE / 2, n - 1) / norm.ppf(1 - OUTSIDE / 2)
    return mean + wider * (draws - mean)


def mean_of(draws: Mapping[int, np.ndarray], layers: Sequence[int]) -> np.ndarray:
    """Return resamples (draws,) of the mean over those of ``layers`` that have resamples."""
    measured = [draws[layer] for layer in layers if layer in draws]
    return np.mean(measured, axis=0) if measured else np.empty(0)


def p_value(draws: np.ndarray, null: float, alternative: str) -> float:
    """Return the bootstrap's one-sided p-value: the share of resamples that are not on the claim's side of ``null``.

    The measured number itself counts as one resample, so no p-value is below 1 / (draws + 1). A resample that has no
    number is on neither side.
    """
    towards = draws > null if alternative == "greater" else draws < null
    return float((1 + np.count_nonzero(~towards)) / (1 + len(draws)))


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values with Holm's correction over all of them, in the given order."""
    order = np.argsort(values, kind="stable")
    scaled = np.minimum(1.0, np.arange(len(values), 0, -1) * np.asarray(values)[order])
    return list(np.maximum.accumulate(scaled)[np.argsort(order)].tolist())


def _resampled(n: int, seed: int, draws: int) -> Iterator[np.ndarray]:
    """Yield counts (``BLOCK``, n) of how often each of ``n`` units is drawn per resample, until there are ``draws``."""
    rng = np.random.default_rng(seed)
    first = np.arange(BLOCK)[:, None] * n
    for _ in range(0, draws, BLOCK):
        draw = rng.integers(0, n, size=(BLOCK, n)) + first
        yield np.bincount(draw.ravel(), minlength=BLOCK * n).reshape(BLOCK, n).astype(np.float32)


def highest(shares: np.ndarray, units: np.ndarray, draws: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the highest of several layers' shares, from resamples of all; NaN without draws.

    The layer was selected, so part of its share is luck, and the resamples' own highest shares are lucky twice. So all
    layers' lower ends are set at one common level, such that in 97.5 % of the resamples (draws, layers) no layer falls
    below its end: the highest of them is the interval's. The upper end needs no such correction: whichever layer is
    truly the highest, its share lies below its own upper end. ``shares`` and ``units`` (layers,) are as measured, and
    the number of rows of each.
    """
    if not len(draws):
        return float("nan"), float("nan")
    ordered = np.sort(draws, 0)
    places = [np.searchsorted(layer, again, "right") for layer, again in zip(ordered.T, draws.T, strict=True)]
    beyond = int(OUTSIDE / 2 * len(draws))  # number of resamples that may have a layer below its end
    lows = ordered[np.sort(np.min(places, 0))[beyond] - 1]
    highs = np.percentile(draws, 100 * (1 - OUTSIDE / 2), axis=0)
    for layer in np.flatnonzero((shares == 0) | (shares == 1)):  # as in ``share_interval``
        cases, n = int(shares[layer] * units[layer]), int(units[layer])
        lows[layer], highs[layer] = wilson(cases, n, OUTSIDE / len(shares))[0], wilson(cases, n)[1]
    return float(lows.max()), float(highs.max())


def pooled_share(pairs: pl.DataFrame, hit: pl.Expr, unit: str, seed: int | None) -> Share | None:
    """Return a share over all rows, if any, with its interval, resampling whole units, whose rows are dependent.

    If no row or every row is a hit, the interval is Wilson's with one trial per unit.
    """
    if pairs.is_empty():
        return None
    share, rows = _by_unit(pairs, hit, unit)
    one = share.min() == share.max() and share[0] in (0, 1)
    low, high = wilson(int(share.sum()), len(share)) if one else interval(share, seed, rows)
    return float((share * rows).sum() / rows.sum()), low, high


def pooled_draws(pairs: pl.DataFrame, hit: pl.Expr, unit: str, seed: int | None) -> np.ndarray:
    """Return resamples (draws,) of ``pooled_share``."""
    share, rows = _by_unit(pairs, hit, unit)
    return resamples(share, seed, rows)


def _by_unit(pairs: pl.DataFrame, hit: pl.Expr, unit: str) -> tuple[np.ndarray, np.ndarray]:
    units = pairs.group_by(unit).agg(hit.cast(pl.Float64).mean().alias("share"), pl.len().alias("rows")).sort(unit)
    return units["share"].to_numpy(), units["rows"].to_numpy()


def between(bounds: list[int], layers: int) -> list[int]:
    """Return the layers that correspond to the paper's layers ``bounds[0]`` to ``bounds[1]``, inclusive.

    For 16 layers, these are the same layers. Otherwise they follow relative depth; a shallow model may have none.
    """
    first, last = bounds
    return [layer for layer in range(1, layers + 1) if (first - 1) * layers < PAPER * layer <= last * layers]


def at(layer: int, layers: int) -> int:
    """Return the layer that corresponds to a layer of the paper, by relative depth and at least 1."""
    return max(1, layer * layers // PAPER)


def in_layers(
    holding: Mapping[int, bool], tests: Mapping[int, Sides], layers: int, needed: Limit, clear: bool | None
) -> tuple[Judged | None, str]:
    """Judge "in at least ``needed`` of 16 layers", scaled to a model's depth, by the number of layers, and explain.

    No judgement if the layers without data would decide: ``holding`` has those with data, and ``tests`` p-values of
    those that can be tested. ``clear``: whether the claim's direction is clear over all layers.
    """
    number, limit = sum(holding.values()), (needed.low or 0) * layers / PAPER
    unknown = layers - len(holding)
    text = f"in {number} of {layers} layers" + (f", {unknown} without data" if unknown else "")
    if number < limit <= number + unknown:
        return None, text
    if not tests:
        return Judged(number, None, None, Limit(limit), clear), text
    against, towards = zip(*tests.values(), strict=True)
    low, high = surely(against), layers - surely(towards)
    return Judged(number, low, high, Limit(limit), clear), text


def percent(share: float) -> str:
    """Return a fraction as a percentage with three significant digits, for a reason's text."""
    return f"{100 * share:.3g} %"
