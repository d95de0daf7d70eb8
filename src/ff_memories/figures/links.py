"""Link a figure's marks to the keys behind them, in the run's gallery (relative to the figures' folder)."""

import polars as pl

from ff_memories.figures.registry import DRAWN

GALLERY = "../gallery/index.html#/"


def linked(frame: pl.DataFrame, figure: str) -> pl.DataFrame:
    """Add the column ``href``, the address of the keys behind each row, to the frame."""
    address = DRAWN[figure].address
    return frame.with_columns(
        pl.Series("href", [GALLERY + address.format(**row) for row in frame.iter_rows(named=True)], dtype=pl.String)
    )


def keys_behind(figure: str) -> str | None:
    """Return the address of all keys that a figure counts; ``None`` if it counts something else."""
    return GALLERY + DRAWN[figure].keys if DRAWN[figure].keys else None
