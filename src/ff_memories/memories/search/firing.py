"""How often every key fires (the `firing` table): on how many prefixes its memory coefficient is positive."""

import numpy as np
import polars as pl
import torch

ROWS = 64  # compared at a time on a CPU: as fits in a cache


def fired(coefficients: torch.Tensor, weights: torch.Tensor, signs: int = 1) -> torch.Tensor:
    """Return (signs * d_m,) int64: on how many rows each memory's coefficient is positive, each row by its weight.

    Args:
        coefficients: (rows, d_m).
        weights: (rows,) float32, whole numbers whose sum is below 2**24, so that float32 counts exactly.
        signs: 2 also counts the negative coefficients, as those of memories ``d_m + i``.
    """
    rows, keys = coefficients.shape
    size = rows if coefficients.device.type == "cuda" else min(rows, ROWS)
    found = weights.new_empty(size, keys)
    counts = weights.new_zeros(signs, keys)
    for part, own in zip(coefficients.split(size), weights.split(size), strict=True):
        for sign, compare in enumerate((torch.gt, torch.lt)[:signs]):
            counts[sign] += own @ compare(part, 0, out=found[: len(part)])
    return counts.flatten().to(torch.int64)


def table(counts: np.ndarray, prefixes: int, keys: list[tuple[int, int]] | None) -> pl.DataFrame:
    """Return the ``firing`` table.

    Args:
        counts: (layers, memories) int64.
        prefixes: how many prefixes the training text has.
        keys: (layer, key) of those looked at, ``None`` for all.
    """
    layer, key = (
        np.array(keys, dtype=np.int64).reshape(-1, 2).T
        if keys is not None
        else (grid.ravel() + first for grid, first in zip(np.indices(counts.shape), (1, 0), strict=True))
    )
    return pl.DataFrame({"layer": layer, "key": key, "fired": counts[layer - 1, key]}).with_columns(
        prefixes=pl.lit(prefixes, pl.UInt64)
    )
