"""Recompute rows of the measured tables, each with its table's check."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl
import torch

from ff_memories.audit.recompute import checks
from ff_memories.audit.recompute.basis import Basis, TableRow
from ff_memories.audit.recompute.closeness import DIFFERS, Result
from ff_memories.tables import TABLES

ROWS: dict[str, Callable[[Basis, TableRow], Result]] = {
    name: vars(checks)[name] for name in TABLES if name in vars(checks)
}


def recomputed_rows(basis: Basis, name: str, rows: Sequence[int]) -> Iterator[tuple[str, Result]]:
    """Yield the place and the result of some rows of a table."""
    for row in basis.tables[name][list(rows)].iter_rows(named=True):
        yield place(name, row), recomputed(name, basis, row)


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


def texts_of(basis: Basis, name: str, number: int) -> tuple[int, list[np.ndarray]]:
    """Return what a row needs the model to run: the last layer, and sentences or prefixes."""
    layers = basis.oracle.keys[0]
    if name not in ROWS:
        return layers, [basis.corpus.sentence(number)]
    row = basis.tables[name].row(number, named=True)
    if name == "triggers":
        return row["layer"], [basis.corpus.sentence(row["sentence"])]
    if name == "mutations":
        return row["layer"], [basis.without(basis.trigger(row), row["removed"], row.get("removed_tokens", 1))]
    if name in ("causal", "removals"):
        return layers, [basis.numbered(row[end]) for end in ("prefix", "other_prefix") if row.get(end) is not None]
    if name == "values":
        return 1, []
    return layers, [basis.prefix(row if name == "examples" else basis.example(row))]
