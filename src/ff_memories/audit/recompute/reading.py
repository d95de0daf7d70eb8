"""Read tables that others may have forged: also refuse what the steps that write tables never write."""

from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError, rebuild_hint


def read(path: str | Path, name: str | None = None) -> pl.DataFrame:
    """Read a table (``tables.read``). Raises ``UserError`` for a number that is not finite, too."""
    frame = tables.read(path, name)
    if odd := [c for c in frame.columns if frame[c].dtype.is_float() and not frame[c].is_finite().all()]:
        raise UserError(f"{path}: {odd[0]} has a number that is not finite", rebuild_hint(path))
    return frame


def precision_of(path: str | Path) -> Precision:
    """Return the precision that a file states (``tables.precision_of``). Raises ``UserError`` if it is no table."""
    try:
        return tables.precision_of(path)
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{path}: cannot be read as a table ({error})", rebuild_hint(path)) from None
