"""What a table's declaration says: its columns, their types, its order, and how two runs' rows compare."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

Type = pl.DataType | type[pl.DataType]
Columns = dict[str, Type]
LAYER, KEY, RANK, SIGN = pl.UInt8, pl.UInt16, pl.UInt16, pl.Int8
SENTENCE, POSITION, TOKEN, EXAMPLE = pl.UInt32, pl.UInt16, pl.UInt32, pl.UInt32

# How two runs' cells compare (docs/verify.md): bit by bit; as numbers within the tolerance of a class
# (``tolerances``); or not at all, because each must be what its own run's tables give. What differs beyond that counts
# as equal only if a recomputation of both runs' rows confirms it, where the audit has one.
Rule = Literal["exact", "coefficient", "probability", "logit", "statistic", "count", "follows"]


@dataclass(frozen=True)
class Column:
    """One column."""

    type: Type  # of its cells
    null: bool = False  # whether cells may be null
    optional: bool = False  # whether runs may lack it
    compared: Rule | None = None  # how two runs' cells compare; ``None``: as the table says


@dataclass(frozen=True)
class Schema:
    """One table.

    No step reads what stands below ``fields``, so no job's ``params`` have it (``workflow.code_digest``): a row may be
    compared in another way without being measured again.
    """

    by: Columns  # that tell its rows apart, with their types; rows are sorted by them
    fields: Mapping[str, Column]  # the other columns
    about: str = ""  # its description
    compared: Rule = "exact"  # how cells compare in columns that do not say it
    measured: bool = False  # whether its numbers are the model's, so its file states their precision
    # the column that ranks a list's entries: two runs' agree place by place, whatever the entry
    score: str | None = None
    tied: float = 0.0  # the share of rows that near-ties may change, if it is more than in other tables
    open_rows: bool = False  # whether a row that only one of two runs has may be right, as one of another trigger
    of_baselines: bool = False  # whether untrained models have it too
    names_people: str | None = None  # the column that names annotators, if there is one
    quotes_text: str | None = None  # the column that quotes the text, if there is one

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that rows are sorted by."""
        return tuple(self.by)

    @property
    def columns(self) -> Columns:
        """The columns that every run has."""
        return self.by | {name: column.type for name, column in self.fields.items() if not column.optional}

    @property
    def optional(self) -> Columns:
        """The columns that runs may lack."""
        return {name: column.type for name, column in self.fields.items() if column.optional}

    @property
    def rules(self) -> dict[str, Rule]:
        """How two runs' cells compare, by column; keys have no rule."""
        return {name: said.compared or self.compared for name, said in self.fields.items()}

    @property
    def may_be_null(self) -> frozenset[str]:
        """The columns that may hold nulls: a sign where its key may."""
        nullable = frozenset(name for name, column in self.fields.items() if column.null)
        return nullable | ({"sign"} if "key" in nullable else frozenset())

    def of(self, names: Collection[str]) -> Columns | None:
        """Return the columns with these names; ``None`` if they do not fit this table."""
        every = self.columns | ({"sign": SIGN} if "key" in self.columns else {}) | self.optional
        fits = self.columns.keys() <= set(names) <= every.keys()
        return {n: t for n, t in every.items() if n in names} if fits else None

    def order(self, names: Collection[str]) -> list[str]:
        """Return the columns that rows are sorted by; a sign, where there is one, stands behind its key."""
        return [name for n in self.by for name in ((n, "sign") if n == "key" and "sign" in names else (n,))]


def both(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return copies of columns for both choices of ``values.types``, with suffixes ``_all`` and ``_trained``.

    A table has the copies of the choice that the run did not make.
    """
    suffixes = ("all", "trained")
    return {f"{name}_{s}": replace(column, optional=True) for s in suffixes for name, column in columns.items()}
