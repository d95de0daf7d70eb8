"""Compare two runs of one config, file by file and claim by claim: identical, equal, or different.

``equality`` compares tables cell by cell, ``settle`` recomputes the rows that numbers decide, and tables that follow
from others must be what each run's own tables give (``made_again``).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories import tables
from ff_memories.audit.compare import at_hand, equality, made_again, sides
from ff_memories.audit.compare.equality import Outcome
from ff_memories.audit.compare.made_again import MakeAgain
from ff_memories.audit.compare.settle import NOT_TOLD as NOT_TOLD
from ff_memories.audit.compare.settle import SIDES, Settler
from ff_memories.audit.compare.sides import Side
from ff_memories.audit.recompute import reading, tolerances
from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.base.precision import ROUNDOFF, Precision
from ff_memories.memories.perplexity import IN_WINDOWS
from ff_memories.report.wording import counted
from ff_memories.workflow import rebuild
from ff_memories.workflow.runs.opening import run_of
from ff_memories.workflow.runs.run import Run


@dataclass
class Comparison:
    """The comparison of two runs.

    Attributes:
        identical: whether all files have the same bytes.
        tables: {table: its outcome}, such as ``triggers`` and ``baselines/untrained-1/values``.
        others: differences of files that are no tables, and of files that only one of the runs has.
        drawn: number of figures, pages and lists of verdicts that differ because their tables do.
        precisions: the precisions of A and B.
        claims: (claim, A's value, B's value, A's verdict, B's verdict) for claims that both runs have.
        verdicts: number of claims with the same verdict in both.
    """

    identical: bool
    tables: dict[str, Outcome]
    others: list[str] = field(default_factory=list)
    drawn: int = 0
    precisions: tuple[Precision, Precision] = ("float32", "float32")
    claims: list[tuple[str, float | None, float | None, str, str]] = field(default_factory=list)

    @property
    def different(self) -> list[str]:
        """The differences in words, measurements first."""
        return [line for outcome in self.tables.values() for line in outcome.different] + self.others

    @property
    def answer(self) -> str:
        """``identical``, ``equal`` or ``different``."""
        return "identical" if self.identical else "different" if self.different else "equal"

    @property
    def verdicts(self) -> int:
        return sum(a == b for *_, a, b in self.claims)

    @property
    def summary(self) -> str:
        """A one-line summary: verdicts, numbers, rows exchanged, the largest share of rows that near-ties explain."""
        said = [f"{self.verdicts} of {len(self.claims)} verdicts are the same"] if self.claims else []
        if (triggers := self.tables.get("triggers")) and triggers.cells:
            off, rows = triggers.cells.get("coefficient", 0), triggers.rows[0]
            said.append(f"{off:,} of {rows:,} coefficients differ in their last bits")
            said.append(f"{counted(triggers.exchanged, 'row', 'rows')} exchanged at near-ties")
        others = [outcome for name, outcome in self.tables.items() if name != "triggers" and outcome.settled]
        if settled := sum(outcome.settled for outcome in others):
            said.append(f"{counted(settled, 'other row', 'other rows')} with a near-tie")
        if excused := max(((o.excused, name) for name, o in self.tables.items() if o.settled), default=None):
            said.append(f"near-ties explain at most {100 * excused[0]:.2g} % of a table's rows ({excused[1]})")
        return "; ".join(said)


def coarser(precisions: tuple[Precision, Precision]) -> Precision:
    """Return the precision that rounds more."""
    return max(precisions, key=ROUNDOFF.__getitem__)


def compare(a: Path, b: Path, run: Run | None = None) -> Comparison:
    """Compare two runs. Each is a run's folder, or a ``dvc.lock`` with its tables in DVC's cache.

    Rows that only a recomputation can settle are recomputed if the model and the text are here; otherwise they count as
    different.

    Args:
        run: what both are runs of; default: what each one's name says.
    """
    if a.exists() and b.exists() and a.resolve() == b.resolve():
        raise UserError(f"{a} and {b} are the same run", "name two runs")
    with sides.opened(a, run) as first, sides.opened(b, run) as second:
        _refuse_unlike(first, second)
        return compared(first, second, run)


def _refuse_unlike(a: Side, b: Side) -> None:
    """Raise ``UserError`` for runs of two models."""
    found = [at_hand.info(side) for side in (a, b)]
    one, other = ([info.get(name) for name in ("scope", "checkpoint_sha256", "model_sha256")] for info in found)
    if all(found) and one != other:
        raise UserError(
            f"{a.given} and {b.given} are runs of two models",
            "compare runs of one config; ff-memories atlas shows several models",
        )


def compared(
    a: Side, b: Side, given: Run | None, settler: type[Settler] = Settler, again: MakeAgain = rebuild.again
) -> Comparison:
    """Compare two runs by their files.

    Args:
        given: what both are runs of; default: what each one's name says.
        settler, again: what recomputes rows, and what makes files again.
    """
    both: dict[equality.Letter, Side] = {"a": a, "b": b}
    precisions = _precision(a), _precision(b)
    limits = tolerances.of(coarser(precisions))
    if a.digests == b.digests and a.digests:
        found = {name.removeprefix("tables/"): outcome for name, outcome in _same(a, limits, set()).items()}
        return Comparison(True, found, precisions=precisions)
    frames: dict[equality.Letter, equality.NamedTables] = {side: Frames(own) for side, own in both.items()}
    todo = _differing(a, b)
    outcomes = _same(a, limits, todo)
    outcomes |= equality.compare(_only(frames["a"], todo), _only(frames["b"], todo), limits)
    outcomes = {name: outcomes[name] for name in equality.in_order(outcomes)}
    for side, own in both.items():
        for name, file in own.tables().items():
            if name in todo and not tables.in_order(file, outcomes[name].table):
                outcomes[name].different.append(f"{name}: its rows are not in the order of their key ({side.upper()})")
    runs = [given or run_of(side.run) for side in (a, b)]
    run = runs[0] or runs[1]
    out = Comparison(False, {name.removeprefix("tables/"): outcome for name, outcome in outcomes.items()})
    out.precisions = precisions
    out.others += _of_other_precision((a, b), precisions, runs)
    drawn = _others(out, a, b)
    if not out.different:  # else the answer is known, without the model
        not_told = _lacks(run, (a, b))
        known = settler(None if not_told else run, frames, limits, not_told or NOT_TOLD)
        known.settle(outcomes)
        if not out.different:
            out.others += made_again.check(outcomes, both, known, again, drawn)
    out.drawn = len(drawn)
    if all("tables/claims" in frames[side] for side in SIDES):
        claims = frames["a"]["tables/claims"].join(frames["b"]["tables/claims"], on="claim", suffix="_b")
        claims = claims.sort(pl.col("claim").str.slice(1).cast(pl.Int64, strict=False))
        out.claims = claims.select("claim", "measured", "measured_b", "verdict", "verdict_b").rows()
    return out


class Frames(Mapping[str, pl.DataFrame]):
    """A run's tables by name, read when they are asked for."""

    def __init__(self, side: Side):
        self.files, self.read = side.tables(), dict[str, pl.DataFrame]()

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self.read:
            self.read[name] = reading.read(self.files[name], sides.table_of(f"{name}.parquet"))
        return self.read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def _differing(a: Side, b: Side) -> set[str]:
    """Return the tables to compare: those with other bytes, and those measured on triggers that differ."""
    names = a.tables().keys() | b.tables().keys()
    found = {name for name in names if a.digests.get(f"{name}.parquet") != b.digests.get(f"{name}.parquet")}
    return found | ({f"tables/{name}" for name in equality.ALONG} & names if "tables/triggers" in found else set())


def _only(frames: equality.NamedTables, names: set[str]) -> equality.NamedTables:
    return {name: frames[name] for name in frames if name in names}


def _same(side: Side, limits: tolerances.Tolerances, but: set[str]) -> dict[str, Outcome]:
    """Return outcomes of the tables with the same bytes in both runs: all ``but`` some."""
    found = {}
    for name, file in side.tables().items():
        if name not in but:
            rows = reading.rows_of(file)
            found[name] = Outcome(name, (rows, rows), limits)
    return found


def _lacks(run: Run | None, both: tuple[Side, Side]) -> str | None:
    """Return why rows cannot be recomputed; ``None`` if the recorded model and text are here."""
    if run is None or at_hand.lacking(run) is not None:
        return NOT_TOLD
    said = at_hand.odd(run, both)
    return said and f"different, or a near-tie: {said}, so nothing was recomputed"


def _others(found: Comparison, a: Side, b: Side) -> list[str]:
    """Compare the files that are no tables; return those that differ and that may follow from tables that differ."""
    moved, drawn = any(any(outcome.cells.values()) for outcome in found.tables.values()), []
    for path in sorted(a.digests.keys() | b.digests.keys()):
        table = sides.table_of(path)
        if not sides.has_rule(path):
            found.others.append(f"{path}: nothing says how to compare this file")
        elif table is not None:
            continue
        elif path not in a.digests or path not in b.digests:
            found.others.append(f"{path}: only one of the runs has this file")
        elif a.digests[path] != b.digests[path]:
            if sides.DRAWN.match(path) and moved:
                drawn.append(path)
            elif not (sides.NUMBERS.match(path) and _alike(a.files.get(path), b.files.get(path))):
                found.others.append(
                    f"{path}: differs, but the tables that it follows from are the same"
                    if sides.DRAWN.match(path)
                    else f"{path}: differs"
                )
    return drawn


def _alike(one: Path | None, other: Path | None) -> bool:
    """Return whether two JSON files have the same keys and texts, and numbers that agree to 1e-4."""
    if one is None or other is None:
        return False
    try:
        first, second = (foreign.read_json(path, dict[str, Any]) for path in (one, other))
        for newer, older in ((first, second), (second, first)):
            if IN_WINDOWS not in older:  # a run of an earlier version
                newer.pop(IN_WINDOWS, None)
        return _near(first, second)
    except UserError:
        return False


def _near(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_near(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4)
    return bool(one == other)


def _precision(side: Side) -> Precision:
    """Return the precision that a run's tables were measured in. Raises ``UserError`` if they differ in it."""
    own = {name.removeprefix("tables/"): path for name, path in side.tables().items()}
    measured = [name for name, schema in tables.TABLES.items() if schema.measured and name in own]
    found = {reading.precision_of(own[name]): f"tables/{name}" for name in measured}
    if len(found) > 1:
        names = " and ".join(f"{name} in {precision}" for precision, name in found.items())
        raise UserError(f"{side.given}: tables measured in different precisions: {names}", "run the workflow again")
    return next(iter(found), "float32")


def _of_other_precision(
    both: tuple[Side, Side], stated: tuple[Precision, Precision], runs: list[Run | None]
) -> Iterator[str]:
    """Yield which side states another precision than its run's config; the limits follow from what the files state.

    A side without a config must state that of the other.
    """
    wanted = [None if run is None else run.config.extraction.precision for run in runs]
    for side, says, own, other in zip(both, stated, wanted, reversed(wanted), strict=True):
        right = own or other or stated[0]
        if says != right:
            whose = f"its config says {right}" if own else f"the other run is in {right}, and no config says otherwise"
            yield f"{side.given}: its tables state that they were measured in {says}, but {whose}"


def page(found: Comparison) -> Iterator[str]:
    """Yield the comparison in lines: tables, columns that differ, claims that changed, the answer."""
    if found.precisions != ("float32", "float32"):
        a, b = found.precisions
        yield f"A was measured in {a}, B in {b}; the limits are those of {coarser(found.precisions)}"
    for name, outcome in found.tables.items():
        rows = " and ".join(f"{n:,}" for n in dict.fromkeys(outcome.rows)) + " rows"
        state = "different" if outcome.different else "equal" if any(outcome.cells.values()) else "the same"
        if outcome.follows and not outcome.different:
            state += "; each follows from its own run's tables"
        if outcome.exchanged and not outcome.different:
            state += f"; {counted(outcome.exchanged, 'row', 'rows')} exchanged at near-ties"
            state += f" (largest gap {outcome.gap:.1g})" if outcome.gap else ""
        if outcome.tied:
            state += f"; {counted(outcome.tied, 'label hangs', 'labels hang')} on near-ties"
        if outcome.settled:
            state += f"; {counted(outcome.settled, 'row', 'rows')} recomputed in float64"
            state += f" ({100 * outcome.excused:.2g} %, at most {outcome.most:,.0f} {outcome.unit})"
        yield f"{name:18} {rows}: {state}"
        for column, differ in outcome.cells.items():
            if differ:
                cells = f"{differ:,} of {outcome.rows[0]:,} cells differ"
                yield f"    {column:18} {cells}" + (
                    f", {outcome.within[column]:,} within tolerance" if column in outcome.within else ""
                )
        yield from _first(outcome.different)
    yield from _first(found.others)
    if found.drawn:
        how = "" if found.different else "; each is what its own run's tables give"
        yield f"{counted(found.drawn, 'other file differs', 'other files differ')}, because tables do{how}"
    number = lambda value: "none" if value is None else f"{value:.6g}"
    for claim, one, other, verdict, its in found.claims:
        if one != other or verdict != its:
            yield f"{claim:4} {number(one)} and {number(other)}: " + (
                verdict if verdict == its else f"{verdict} and {its}"
            )
    yield f"{found.answer}" + (f": {found.summary}" if found.answer == "equal" else "")


def _first(lines: list[str]) -> Iterator[str]:
    yield from (f"  ! {line}" for line in lines[: equality.SHOWN])
    if len(lines) > equality.SHOWN:
        yield f"  ! and {len(lines) - equality.SHOWN:,} more"


def data(found: Comparison) -> dict[str, Any]:
    """Return the comparison as plain data."""
    names = (
        "rows",
        "cells",
        "within",
        "exchanged",
        "gap",
        "largest",
        "settled",
        "excused",
        "tied",
        "follows",
        "different",
    )
    return {
        "answer": found.answer,
        "precisions": found.precisions,
        "summary": found.summary,
        "tables": {t: {name: getattr(outcome, name) for name in names} for t, outcome in found.tables.items()},
        "others": found.others,
        "claims": [dict(zip(("claim", "a", "b", "verdict_a", "verdict_b"), row, strict=True)) for row in found.claims],
    }
