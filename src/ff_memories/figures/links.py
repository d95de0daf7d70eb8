"""Link a figure's marks to the keys behind them, in the run's gallery (relative to the figures' folder)."""

import polars as pl

GALLERY = "../gallery/index.html#/"
ADDRESSES = {
    "figure2": "?layer={layer}&label={series}",
    "figure3": "?layer={layer}&mutated=1&sort={mutation}",
    "figure4": "?layer={layer}&agrees=1",
    "figure5": "?layer={layer}&sort=rank",
    "figure6": "?probability={left:.6g}..{bin:.6g}&sort=probability",
}
# the list that the whole figure links to
WHOLE = {"figure2": "?label=any", "figure3": "?mutated=1", "figure4": "?agrees=1", "figure5": "?sort=rank",
         "figure6": "?sort=probability"}  # fmt: skip
LAYER = "?layer={layer}"  # figures 7 to 11 count examples, so a mark links to its layer's keys


def linked(frame: pl.DataFrame, figure: str) -> pl.DataFrame:
    """Add the column ``href``, the address of the keys behind each row, to the frame."""
    address = ADDRESSES.get(figure, LAYER)
    return frame.with_columns(
        pl.Series("href", [GALLERY + address.format(**row) for row in frame.iter_rows(named=True)], dtype=pl.String)
    )


def keys_behind(figure: str) -> str | None:
    """Return the address of all keys that a figure counts; ``None`` if it counts something else."""
    return GALLERY + WHOLE[figure] if figure in WHOLE else None
