"""Recompute rows of the measured tables, each with its table's check."""

from collections.abc import Callable, Iterator, Sequence

import polars as pl
import torch

from ff_memories.audit.recompute import checks
from ff_memories.audit.recompute.basis import Basis, TableRow
from ff_memories.audit.recompute.closeness import DIFFERS, Result, together
from ff_memories.audit.recompute.spread import Spread
from ff_memories.tables import TABLES

ROWS: dict[str, Callable[[Basis, TableRow], Result]] = {
    name: vars(checks)[name] for name in TABLES if name in vars(checks)
}
SPREAD, OF_SPREAD = "histogram", "samples"  # both need all coefficients of the seed's sample of sentences
RECOMPUTED = (*ROWS, SPREAD)


def recomputed_rows(basis: Basis, name: str, rows: Sequence[int]) -> Iterator[tuple[str, Result]]:
    """Yield the place and the result of some rows of a table; of ``histogram``, those of all rows."""
    if name in (SPREAD, OF_SPREAD):
        yield from ((where, result) for what, where, result in spread_of(basis, rows) if what == name)
        return
    for row in basis.tables[name][list(rows)].iter_rows(named=True):
        yield place(name, row), recomputed(name, basis, row)


def spread_of(basis: Basis, drawn: Sequence[int]) -> Iterator[tuple[str, str, Result]]:
    """Recompute the whole table ``histogram``, the bounds of ``firing``, and some rows of ``samples``.

    Yields (table, place, result); what contradicts ``firing`` is a result of the histogram.
    """
    rows = basis.tables[OF_SPREAD][list(drawn)].to_dicts() if OF_SPREAD in basis.tables else []
    spread = Spread(basis, [(row["layer"], row["key"]) for row in rows])
    odd = [(place(SPREAD, row), result) for row, result in spread.histogram(basis.tables[SPREAD])]
    fires = spread.firing(basis.tables["firing"])
    odd += [(f"firing, {place('firing', row)}", result) for row, result in fires]
    yield from ((SPREAD, where, result) for where, result in odd)
    yield from ((SPREAD, SPREAD, Result()) for _ in range(len(basis.tables[SPREAD]) - len(odd)))
    for row in rows:
        result = recomputed(OF_SPREAD, basis, row)
        if result.state != DIFFERS:
            said = spread.lacking(row["layer"], row["key"], basis.tables[OF_SPREAD])
            result = together([result, spread.percentile(row), Result(DIFFERS, said) if said else Result()])
        yield OF_SPREAD, place(OF_SPREAD, row), result


def place(name: str, row: TableRow) -> str:
    """Return a row's place in words."""
    return " ".join(f"{column} {row[column]}" for column in TABLES[name].key)


def recomputed(name: str, basis: Basis, row: TableRow) -> Result:
    """Recompute one row of a table from the model and the text."""
    try:
        with torch.inference_mode():
            return ROWS[name](basis, row)
    except (KeyError, IndexError, pl.exceptions.OutOfBoundsError):
        return Result(DIFFERS, "names a trigger, an example or a sentence that does not exist")
    except (ArithmeticError, ValueError, TypeError) as error:
        return Result(DIFFERS, f"cannot be recomputed from what it says ({str(error).partition(chr(10))[0]})")
