"""Decide whether two runs' tables are equal: a rule for every column of every table.

Some columns must be identical. Numbers must agree within ``tolerances``. Whatever a comparison of numbers decides (a
top token, a rank, a count of active memories, which entry a ranked list has at a place) is open if it differs: only
recomputing the row of either run can settle it (``settle``). Tables that follow from other tables are open as a whole:
each run's must be what its own tables give (``made_again``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from ff_memories.audit.recompute import tolerances
from ff_memories.audit.recompute.tolerances import Tolerances
from ff_memories.tables import TABLES
from ff_memories.tables.schema import (
    CHANGE,
    COEFFICIENT,
    COUNT,
    DECIDED,
    ENTRY,
    FOLLOWS,
    LOGIT,
    PROBABILITY,
    SAME,
    STATISTIC,
    Rule,
    Schema,
)

SHOWN = 5  # differences shown per table
FEW = 10  # rows that near-ties may change in a table of any size, beside the share ``Tolerances.excused``
# {table: {column: its rule}}; keys have none
RULES: dict[str, dict[str, Rule]] = {
    name: {column: said.compared or schema.compared for column, said in schema.fields.items()}
    for name, schema in TABLES.items()
    if schema.compared is not None
}
TRIGGERS = TABLES["triggers"].key
# measured on triggers, with their rank
ALONG = tuple(name for name, schema in TABLES.items() if schema.measured and schema.key[:3] == TRIGGERS != schema.key)
Letter = Literal["a", "b"]
FLOAT32 = tolerances.of("float32")
NamedTables = Mapping[str, pl.DataFrame]


@dataclass
class Outcome:
    """The comparison of one table.

    Attributes:
        name: the table's file below the run's folder, without suffix: ``tables/triggers``.
        rows: number of rows in each run.
        limits: the tolerances.
        cells: {column: number of cells that differ in any bit}.
        within: {column: how many of these are within the tolerance}.
        largest: the largest difference of a number, in the unit of its tolerance.
        open: rows of both runs that only a recomputation can settle.
        follows: whether the tables differ, and each must be what its own run's tables give.
        different: the differences in words.
        exchanged: number of places in ranked lists at which the runs have other entries.
        settled: number of open rows that a recomputation found equal.
        triggers: number of triggers that a table of ``ALONG`` has rows of.
        of_triggers: number of triggers that the settled rows of such a table are of.
        gap: the largest relative gap between the scores of exchanged entries, recomputed.
        tied: number of labels, of both runs, that another order of near-ties gives.
    """

    name: str
    rows: tuple[int, int]
    limits: Tolerances
    cells: dict[str, int] = field(default_factory=dict)
    within: dict[str, int] = field(default_factory=dict)
    largest: float = 0.0
    open: dict[Letter, list[dict[str, Any]]] = field(default_factory=lambda: {"a": [], "b": []})
    follows: bool = False
    different: list[str] = field(default_factory=list)
    exchanged: int = 0
    settled: int = 0
    gap: float = 0.0
    tied: int = 0
    triggers: int = 0
    of_triggers: int = 0

    @property
    def table(self) -> str:
        return self.name.rpartition("/")[2] if not self.name.startswith("counts/") else "counts"

    @property
    def opened(self) -> int:
        """Number of rows that need a recomputation, of the run with more of them."""
        return max(map(len, self.open.values()))

    @property
    def open_triggers(self) -> int:
        """Number of triggers that these rows are of, in a table of ``ALONG``."""
        return max(len({(row["layer"], row["key"], row["rank"]) for row in rows}) for rows in self.open.values())

    @property
    def schema(self) -> Schema:
        return TABLES[self.table]

    @property
    def unit(self) -> str:
        """What near-ties may change only a share of: rows, or triggers in tables with several rows of each."""
        return "triggers" if self.table in ALONG else "rows"

    @property
    def excused(self) -> float:
        """The share of rows, or triggers, that differ by more than a tolerance allows, and still count as equal."""
        return (self.of_triggers if self.table in ALONG else self.settled) / max(1, self.size)

    @property
    def size(self) -> int:
        """Number of rows, or of triggers."""
        return self.triggers if self.table in ALONG else max(self.rows)

    @property
    def most(self) -> float:
        """The largest number of rows, or triggers, that may differ so."""
        return max(self.limits.excused, self.schema.tied) * self.size + FEW

    def close(self) -> None:
        """Count the open rows as settled, unless one of them is a difference."""
        if not self.different:
            self.settled, self.of_triggers = self.opened, self.open_triggers if self.table in ALONG else 0
        self.open = {"a": [], "b": []}

    def differs(self, rows: Iterable[dict[str, Any]], says: str) -> None:
        self.different += [f"{self.name.removeprefix('tables/')}, {self.place(row)}: {says}" for row in rows]

    def place(self, row: dict[str, Any]) -> str:
        return " ".join(f"{column} {row[column]}" for column in self.schema.key if column in row)


def in_order(names: Iterable[str]) -> list[str]:
    """Return tables with measurements before what follows from them."""
    every = list(TABLES)

    def place(name: str) -> tuple[bool, int, str]:
        table = Outcome(name, (0, 0), FLOAT32).table
        return (TABLES[table].compared == FOLLOWS, every.index(table), name) if table in TABLES else (False, 0, name)

    return sorted(names, key=place)


def compare(a: NamedTables, b: NamedTables, limits: Tolerances = FLOAT32) -> dict[str, Outcome]:
    """Compare the tables of two runs, named by their files. Return {name: its outcome}, measurements first.

    A table that one run lacks counts as different.
    """
    out: dict[str, Outcome] = {}
    empty = pl.DataFrame(schema={"layer": pl.UInt8, "key": pl.UInt16, "rank": pl.UInt16})
    moved = empty
    for name in in_order(a.keys() | b.keys()):
        out[name] = found = Outcome(name, (len(a.get(name, ())), len(b.get(name, ()))), limits)
        if name not in a or name not in b:
            found.different.append(f"{name.removeprefix('tables/')}: only one of the runs has this table")
        elif found.schema.compared == FOLLOWS:
            _following(found, a[name], b[name])
        elif STATISTIC in RULES[found.table].values():
            _statistics(found, a[name], b[name])
        else:
            own = moved if name.startswith("tables/") and found.table in ALONG else empty
            if found.table in ALONG:
                found.triggers = max(t.select("layer", "key", "rank").n_unique() for t in (a[name], b[name]))
            exchanged = _rows(found, a[name], b[name], own)
            if name == "tables/triggers":
                moved = exchanged
        opened = found.open_triggers if found.table in ALONG else found.opened
        if opened > found.most:
            found.different.append(
                f"{name.removeprefix('tables/')}: {opened:,} of {found.size:,} {found.unit} differ in what numbers "
                f"decide, and rounding explains at most {found.most:,.0f}"
            )
            found.open = {"a": [], "b": []}
    return out


def _rows(out: Outcome, a: pl.DataFrame, b: pl.DataFrame, moved: pl.DataFrame) -> pl.DataFrame:
    """Compare tables row by row, and open the rows with a difference that numbers decide.

    Args:
        moved: (layer, key, rank) at which the runs have other triggers; what is measured on them is open.

    Returns:
        (layer, key, rank) at which the runs' lists have other entries, if the table is one of triggers.
    """
    key, rules = list(out.schema.key), RULES[out.table]
    a, b = _in_shared_columns(out, a, b)
    for side in (a, b):
        out.differs(side.filter(side.select(key).is_duplicated()).iter_rows(named=True), "several rows of this key")
    both = _beside(a, b, key)
    only = a.join(b, on=key, how="anti", nulls_equal=True), b.join(a, on=key, how="anti", nulls_equal=True)
    for side in only:
        if not out.schema.open_rows:
            out.differs(side.iter_rows(named=True), "only one of the runs has this row")
    differ = lambda columns: pl.any_horizontal(
        pl.lit(False), *(pl.col(c).ne_missing(pl.col(f"other:{c}")) for c in columns)
    )
    entry, decided = ([column for column in a.columns if rules.get(column) == rule] for rule in (ENTRY, DECIDED))
    elsewhere = both.filter(differ(entry)).select(key)
    out.exchanged = len(elsewhere)
    on_moved = [column for column in moved.columns if column in key]
    other = both.join(moved, on=on_moved, how="semi").select(key) if len(moved) else both.clear().select(key)
    unsure = pl.concat([both.filter(differ([*entry, *decided])).select(key), other]).unique()
    for column in (*entry, *decided):
        out.cells[column] = both.filter(differ([column])).height
    opened = out.schema.open_rows
    out.open = {
        "a": [*a.join(unsure, on=key, how="semi").iter_rows(named=True), *(only[0].to_dicts() if opened else ())],
        "b": [*b.join(unsure, on=key, how="semi").iter_rows(named=True), *(only[1].to_dicts() if opened else ())],
    }
    sure = both.join(unsure, on=key, how="anti")
    odd: list[pl.DataFrame] = []
    most = _most(a, b) if COEFFICIENT in rules.values() and "layer" in a.columns else None
    for column in a.columns:
        if column in key or column in entry or column in decided:
            continue
        if (rule := rules.get(column, SAME)) == SAME:
            wrong = sure.filter(differ([column]))
            out.cells[column] = len(wrong)
            out.differs(wrong.iter_rows(named=True), f"{column} differs")
        else:  # scores of ranked lists agree place by place, whatever entry they are of
            wrong = _numbers(out, both if out.schema.score == column else sure, column, rule, most)
            if out.table in ALONG and out.name.startswith("baselines/"):
                odd.append(wrong.select(key))  # whose triggers no table tells, and near-ties may change places
            else:
                out.differs(wrong.iter_rows(named=True), f"{column} differs")
    if odd and len(at := pl.concat(odd).unique()):
        out.open["a"] += a.join(at, on=key, how="semi").to_dicts()
        out.open["b"] += b.join(at, on=key, how="semi").to_dicts()
    for side in (a, b) if out.table == "mutations" else ():
        ratio = pl.col("mutated").cast(pl.Float64) / pl.col("coefficient").cast(pl.Float64) - 1
        wrong = side.filter((ratio - pl.col("change")).abs() > 1e-5 * (1 + pl.col("change").abs()))
        out.differs(wrong.iter_rows(named=True), "change does not follow from its coefficients")
    if out.table != "triggers":
        return moved.clear()
    places = pl.concat([elsewhere, *(side.select(key) for side in only)]).unique()
    return places.select(moved.columns)


def _most(*frames: pl.DataFrame) -> pl.Expr | None:
    """Return the largest coefficient in a row's layer; noise is relative to it. Of two runs, the smaller one counts."""
    if any("coefficient" not in frame.columns for frame in frames):
        return None
    each = [frame.group_by("layer").agg(pl.col("coefficient").max()) for frame in frames]
    most = pl.concat(each).group_by("layer").agg(pl.col("coefficient").min())
    return pl.col("layer").replace_strict(most["layer"], most["coefficient"], return_dtype=pl.Float64, default=0.0)


def _numbers(out: Outcome, both: pl.DataFrame, column: str, rule: str, most: pl.Expr | None) -> pl.DataFrame:
    """Compare one column of numbers in the rows that both tables have; return the rows in which it differs."""
    one, other = pl.col(column).cast(pl.Float64), pl.col(f"other:{column}").cast(pl.Float64)
    size = pl.max_horizontal(one.abs(), other.abs())
    share = out.limits.noise
    limit = out.limits.probability if rule == PROBABILITY else out.limits.coefficient
    noise = pl.lit(0.0) if most is None else share * most
    if rule in (PROBABILITY, LOGIT):
        noise = pl.lit(0.0)
    if rule == LOGIT:  # an absolute error, as of a log-probability
        limit, size = out.limits.probability, pl.lit(1.0)
    if rule == COUNT:  # of coefficients above zero: those next to it may be counted or not
        limit, noise = out.limits.count, pl.lit(2.0)
    if column == "cosine":
        size, noise = pl.lit(1.0), pl.lit(0.0)
    if rule == CHANGE:  # mutated / coefficient - 1: the errors of both add up
        size = 2 * (1 + size)
        noise = noise * (2 + size) / pl.col("coefficient").cast(pl.Float64)
    elif column == "mutated":
        size = pl.max_horizontal(size, pl.col("coefficient").cast(pl.Float64))
    gap = (one - other).abs()
    finite = one.is_finite() & other.is_finite()
    judged = both.select(
        *[c for c in out.schema.key if c in both.columns],
        (pl.col(column).ne_missing(pl.col(f"other:{column}"))).alias("differs"),
        (finite & (gap <= limit * size + noise))
        .fill_null(pl.col(column).eq_missing(pl.col(f"other:{column}")))
        .alias("within"),
        (gap / pl.max_horizontal(size, noise / share, pl.lit(1e-30))).fill_nan(0.0).fill_null(0.0).alias("gap"),
    )
    out.cells[column] = int(judged["differs"].sum())
    out.within[column] = int((judged["differs"] & judged["within"]).sum())
    if len(judged):
        out.largest = max(out.largest, float(judged["gap"].max()))  # type: ignore[arg-type]
    return judged.filter(~pl.col("within"))


def _in_shared_columns(out: Outcome, a: pl.DataFrame, b: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return both tables with the columns that both have; other columns are differences."""
    for column in sorted(set(a.columns) ^ set(b.columns)):
        out.different.append(f"{out.name.removeprefix('tables/')}: only one of the runs has the column {column}")
    shared = [column for column in a.columns if column in b.columns]
    return a.select(shared), b.select(shared)


def _beside(a: pl.DataFrame, b: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Return the rows that both tables have; the second one's columns are called ``other:<name>``."""
    return a.join(b.rename({c: f"other:{c}" for c in b.columns if c not in key}), on=key, nulls_equal=True)


def _aligned(out: Outcome, a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that both tables have; rows that one of them lacks, and other columns, are differences."""
    key = list(out.schema.key)
    a, b = _in_shared_columns(out, a, b)
    for one, other in ((a, b), (b, a)):
        missing = one.join(other, on=key, how="anti", nulls_equal=True)
        if out.schema.open_rows:
            out.cells["rows"] = out.cells.get("rows", 0) + len(missing)  # labels and scores of other triggers
            out.follows |= bool(len(missing))
        else:
            out.differs(missing.iter_rows(named=True), "only one of the runs has this row")
    return _beside(a, b, key)


def _following(out: Outcome, a: pl.DataFrame, b: pl.DataFrame) -> None:
    """Compare tables that follow from others.

    Verdicts must be the same, and all else must be what each run's own tables give.
    """
    both = _aligned(out, a, b)
    for column in (name for name in a.columns if f"other:{name}" in both.columns):
        differ = both.filter(pl.col(column).ne_missing(pl.col(f"other:{column}")))
        out.cells[column] = len(differ)
        if RULES[out.table][column] == SAME:
            out.differs(differ.iter_rows(named=True), f"{column} differs")
    out.follows |= any(out.cells.values())


def _statistics(out: Outcome, a: pl.DataFrame, b: pl.DataFrame) -> None:
    """Compare statistics of the model that only hours can repeat.

    A number may move by a tenth of its confidence interval, of both runs the shorter one, and by the tolerance of
    probabilities.
    """
    both, rules = _aligned(out, a, b), RULES[out.table]
    width = pl.lit(0.0)
    if {"low", "high"} <= set(a.columns):
        each = [(pl.col(f"{whose}high") - pl.col(f"{whose}low")).abs().fill_null(0.0) for whose in ("", "other:")]
        width = pl.min_horizontal(each)
    for column in (name for name in a.columns if f"other:{name}" in both.columns):
        differs = pl.col(column).ne_missing(pl.col(f"other:{column}"))
        if rules[column] != STATISTIC:
            wrong = both.filter(differs)
            out.cells[column] = len(wrong)
            out.differs(wrong.iter_rows(named=True), f"{column} differs")
            continue
        one, other = pl.col(column).cast(pl.Float64), pl.col(f"other:{column}").cast(pl.Float64)
        may = tolerances.INTERVAL * width + out.limits.probability * pl.max_horizontal(one.abs(), other.abs())
        judged = both.with_columns(
            moved=differs,
            near=((one - other).is_finite() & ((one - other).abs() <= may)).fill_null(one.is_null() & other.is_null()),
        )
        out.cells[column] = int(judged["moved"].sum())
        out.within[column] = int((judged["moved"] & judged["near"]).sum())
        out.differs(judged.filter(~pl.col("near")).iter_rows(named=True), f"{column} differs")
