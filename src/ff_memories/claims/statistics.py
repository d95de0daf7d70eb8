"""Small statistics that several checks share."""

from collections.abc import Mapping, Sequence

import polars as pl
from scipy.stats import spearmanr

from ff_memories.measures import interval

Share = tuple[float, float, float]  # with its 95 % interval


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Spearman's correlation; ``None`` for fewer than three points or where one side never varies."""
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return float(spearmanr(x, y).statistic)


def by_layer(frame: pl.DataFrame, column: str) -> dict[int, float]:
    """Return one column of a frame with one row per layer, by layer; layers without a value are left out."""
    frame = frame.drop_nulls(column)
    return dict(zip(frame["layer"].to_list(), frame[column].to_list(), strict=True))


def average(values: Mapping[int, float], layers: Sequence[int]) -> float | None:
    """Return the mean over those of ``layers`` that have a value, ``None`` where none has."""
    found = [values[layer] for layer in layers if layer in values]
    return sum(found) / len(found) if found else None


def pooled_share(pairs: pl.DataFrame, hit: pl.Expr, unit: str, seed: int) -> Share | None:
    """Return a share over all rows with its interval, resampling whole units since their rows are not independent.

    Returns ``None`` for no rows.
    """
    if pairs.is_empty():
        return None
    units = pairs.group_by(unit).agg(hit.cast(pl.Float64).mean().alias("share"), pl.len().alias("rows")).sort(unit)
    share, rows = units["share"].to_numpy(), units["rows"].to_numpy()
    low, high = interval(share, seed, rows)
    return float((share * rows).sum() / rows.sum()), low, high


def percent(share: float) -> str:
    """Return a fraction as a percentage of three significant digits, for the text of a reason."""
    return f"{100 * share:.3g} %"
