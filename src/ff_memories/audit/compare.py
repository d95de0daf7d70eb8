"""Compare two runs of one config, table by table and claim by claim: identical, equal, or different."""

import dataclasses
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from ff_memories import tables
from ff_memories.audit import equality, tolerances
from ff_memories.audit.equality import Outcome
from ff_memories.audit.tolerances import Tolerances
from ff_memories.base.errors import UserError
from ff_memories.base.precision import ROUNDOFF, Precision
from ff_memories.config import load
from ff_memories.report.wording import counted
from ff_memories.workflow import dvc, lock
from ff_memories.workflow.run import Run
from ff_memories.workflow.stages import DEFAULT

TABLE = re.compile(r"results/([^/]+)/tables/(\w+)\.parquet$")
CACHES = (Path(".dvc/cache/files/md5"), Path("artefacts/files/md5"))
MEASURED = (
    "triggers", "firing", "promoted", "demoted", "shading", "levels", "histogram", "samples", "similar", "mutations",
    "values", "examples", "composition", "refinement", "control",
)  # fmt: skip
NOT_TOLD = "differs, and may be a near-tie; to find out, compare where the run's model and text are"


@dataclass
class Comparison:
    """The comparison of two runs.

    Attributes:
        answer: ``identical``, ``equal`` or ``different``.
        tables: {table: its outcome}.
        claims: (claim, A's value, B's value, A's verdict, B's verdict) for claims that both runs have.
        precisions: the precisions of A and B.
        verdicts: number of claims with the same verdict in both.
    """

    identical: bool
    tables: dict[str, Outcome]
    precisions: tuple[Precision, Precision] = ("float32", "float32")
    claims: list[tuple[str, float | None, float | None, str, str]] = field(default_factory=list)

    @property
    def different(self) -> list[str]:
        """The differences in words, measurements first."""
        return [line for outcome in self.tables.values() for line in outcome.different]

    @property
    def answer(self) -> str:
        return "identical" if self.identical else "different" if self.different else "equal"

    @property
    def verdicts(self) -> int:
        return sum(a == b for *_, a, b in self.claims)

    @property
    def summary(self) -> str:
        """A one-line summary: verdicts, numbers, rows exchanged."""
        said = [f"{self.verdicts} of {len(self.claims)} verdicts are the same"] if self.claims else []
        if (triggers := self.tables.get("triggers")) and triggers.cells:
            off, rows = triggers.cells.get("coefficient", 0), triggers.rows[0]
            said.append(f"{off:,} of {rows:,} coefficients differ in their last bits")
            said.append(f"{counted(triggers.exchanged, 'row', 'rows')} exchanged at near-ties")
        if settled := sum(outcome.settled for outcome in self.tables.values()):
            said.append(f"{counted(settled, 'other row', 'other rows')} with a near-tie")
        return "; ".join(said)


def coarser(precisions: tuple[Precision, Precision]) -> Precision:
    """Return the precision that rounds more."""
    return max(precisions, key=ROUNDOFF.__getitem__)


def compare(a: Path, b: Path, configfile: Path | None = None) -> Comparison:
    """Compare two runs. Each is a run's folder, or a ``dvc.lock`` with its tables in DVC's cache.

    Rows that only a recomputation can settle are recomputed if the model and the text are here; otherwise they count as
    different.
    """
    with _tables(a, configfile) as first, _tables(b, configfile) as second:
        if not first or not second:
            raise UserError(f"{a if not first else b}: has no tables of a run", "give a folder such as results/demo")
        same = first.keys() == second.keys() and all(
            lock.digest(first[name]) == lock.digest(second[name]) for name in first
        )
        left, right = ({name: tables.read(path) for name, path in side.items()} for side in (first, second))
        precisions = _precision(first), _precision(second)
        limits = tolerances.of(coarser(precisions))
        out = Comparison(same, equality.compare(left, right, limits), precisions)
        _settle(out.tables, left, right, limits, configfile)
    if "claims" in left and "claims" in right:
        both = left["claims"].join(right["claims"], on="claim", suffix="_b")
        both = both.sort(pl.col("claim").str.slice(1).cast(pl.Int64, strict=False))
        columns = both.select("claim", "measured", "measured_b", "verdict", "verdict_b")
        out.claims = columns.rows()
    return out


@contextmanager
def _tables(run: Path, configfile: Path | None) -> Iterator[dict[str, Path]]:
    """Yield {table: its file} of a run's folder or of a ``dvc.lock``."""
    if run.is_dir():
        yield _known({path.stem: path for path in sorted((run / "tables").glob("*.parquet"))})
        return
    if not run.is_file():
        raise UserError(f"{run}: no such folder or dvc.lock", "give a folder such as results/demo, or a dvc.lock")
    digests = recorded(run)
    if run.resolve() == lock.path_of(configfile).resolve():
        fetch(configfile)
    with tempfile.TemporaryDirectory(prefix="ff-memories-compare-") as folder:
        found = {}
        for name, md5 in digests.items():
            held = next((c / md5[:2] / md5[2:] for c in CACHES if (c / md5[:2] / md5[2:]).is_file()), None)
            if held is None:
                raise UserError(f"{run}: its table {name} is not in DVC's cache", "run dvc fetch")
            found[name] = Path(folder, f"{name}.parquet")
            found[name].symlink_to(held.resolve())
        yield _known(found)


def _precision(run: dict[str, Path]) -> Precision:
    """Return the precision that a run's tables were measured in. Raises ``UserError`` if they differ in it."""
    found = {tables.precision_of(path): path for name, path in run.items() if name in MEASURED}
    if len(found) > 1:
        names = " and ".join(f"{path.stem} in {precision}" for precision, path in found.items())
        raise UserError(f"tables measured in different precisions: {names}", "run snakemake")
    return next(iter(found), "float32")


def _known(found: dict[str, Path]) -> dict[str, Path]:
    return {name: path for name, path in found.items() if name in equality.RULES}


def recorded(path: Path) -> dict[str, str]:
    """Return {table: MD5} of a ``dvc.lock``. Raises ``UserError`` for any other file."""
    try:
        stages = lock.parsed(path.read_text(encoding="utf-8"))["stages"]
        outs = [(out["path"], out["md5"]) for stage in stages.values() for out in stage.get("outs", [])]
    except (OSError, ValueError, yaml.YAMLError, LookupError, TypeError, AttributeError):
        raise UserError(
            f"{path}: neither a run's folder nor a dvc.lock", "give a folder such as results/demo, or a dvc.lock"
        ) from None
    return {match[2]: md5 for name, md5 in outs if (match := TABLE.search(name.removeprefix("../../")))}


def fetch(configfile: Path | None) -> None:
    """Fetch a run's recorded tables into DVC's cache, without touching the run's files."""
    names = {stage for path, (stage, _) in lock.outputs(configfile).items() if TABLE.search(path)}
    lacking = [
        stage
        for path, (stage, md5) in lock.outputs(configfile).items()
        if TABLE.search(path) and not any((cache / md5[:2] / md5[2:]).is_file() for cache in CACHES[:1])
    ]
    if lacking and names:
        where = dvc.addresses(sorted(set(lacking)), configfile)
        dvc.call("fetch", "--quiet", *where)


def _settle(
    outcomes: dict[str, Outcome],
    a: dict[str, pl.DataFrame],
    b: dict[str, pl.DataFrame],
    limits: Tolerances,
    configfile: Path | None,
) -> None:
    """Recompute the open rows of both runs in float64; a row that matches up to near-ties counts as equal."""
    if not any(outcome.open["a"] or outcome.open["b"] for outcome in outcomes.values()):
        return
    evidence = _evidence(a, b, limits, configfile)
    for name, outcome in outcomes.items():
        rows = max(len(outcome.open["a"]), len(outcome.open["b"]))
        if evidence is None or not _recomputable(name):
            outcome.differs(outcome.open["b"] or outcome.open["a"], NOT_TOLD)
        else:
            faults = len(outcome.different)
            _recompute(outcome, evidence)
            outcome.settled = rows if len(outcome.different) == faults else 0
        outcome.open = {"a": [], "b": []}


def _recomputable(name: str) -> bool:
    from ff_memories.audit import audit

    return name in audit.ROWS


def _evidence(
    a: dict[str, pl.DataFrame], b: dict[str, pl.DataFrame], limits: Tolerances, configfile: Path | None
) -> dict[str, Any] | None:
    """Return the evidence to recompute rows of both runs from; ``None`` if the model or the text is missing."""
    from ff_memories.audit import audit
    from ff_memories.audit.checks import Evidence
    from ff_memories.audit.closeness import Closeness

    path = configfile or DEFAULT
    run = Run(load(path).model_dump(), str(path))
    needed = [run.checkpoint, run.dictionary, run.path("corpus", "corpus.safetensors"), run.table("sentences")]
    if not all(map(os.path.exists, needed)):
        return None
    first = Evidence.read(run, (), Path)
    take = lambda frames: {name: frames[name] for name in audit.ROWS if name in frames}
    both = {side: dataclasses.replace(first, tables=take(frames)) for side, frames in (("a", a), ("b", b))}
    for evidence in both.values():
        evidence.near = Closeness(limits)
    return both


def _recompute(outcome: Outcome, evidence: dict[str, Any]) -> None:
    import torch

    from ff_memories.audit import audit
    from ff_memories.audit.closeness import DIFFERS

    with torch.inference_mode():
        for side in ("a", "b"):
            for row in outcome.open[side]:
                result = audit.recomputed(outcome.name, evidence[side], row)
                if result.state == DIFFERS:
                    outcome.differs([row], result.says)


def page(found: Comparison) -> Iterator[str]:
    """Yield the comparison in lines: tables, columns that differ, claims that changed, the answer."""
    if found.precisions != ("float32", "float32"):
        a, b = found.precisions
        yield f"A was measured in {a}, B in {b}; the limits are those of {coarser(found.precisions)}"
    for name, outcome in found.tables.items():
        rows = " and ".join(f"{n:,}" for n in dict.fromkeys(outcome.rows)) + " rows"
        state = "different" if outcome.different else "equal" if any(outcome.cells.values()) else "the same"
        if outcome.exchanged:
            state += f"; {counted(outcome.exchanged, 'row', 'rows')} exchanged at near-ties"
            state += f" (largest gap {outcome.gap:.1g})" if outcome.gap else ""
        if outcome.settled:
            state += f"; {counted(outcome.settled, 'row', 'rows')} with near-ties, confirmed in float64"
        yield f"{name:18} {rows}: {state}"
        for column, differ in outcome.cells.items():
            if differ:
                cells = f"{differ:,} of {outcome.rows[0]:,} cells differ"
                yield f"    {column:18} {cells}" + (
                    f", {outcome.within[column]:,} within tolerance" if column in outcome.within else ""
                )
        yield from (f"  ! {line}" for line in outcome.different[: equality.SHOWN])
        if len(outcome.different) > equality.SHOWN:
            yield f"  ! and {len(outcome.different) - equality.SHOWN:,} more"
    number = lambda value: "none" if value is None else f"{value:.6g}"
    for claim, one, other, verdict, its in found.claims:
        if one != other or verdict != its:
            yield f"{claim:4} {number(one)} and {number(other)}: " + (
                verdict if verdict == its else f"{verdict} and {its}"
            )
    yield f"{found.answer}" + (f": {found.summary}" if found.answer == "equal" else "")


def data(found: Comparison) -> dict[str, Any]:
    """Return the comparison as plain data."""
    names = ("rows", "cells", "within", "exchanged", "gap", "largest", "settled", "different")
    return {
        "answer": found.answer,
        "precisions": found.precisions,
        "summary": found.summary,
        "tables": {t: {name: getattr(outcome, name) for name in names} for t, outcome in found.tables.items()},
        "claims": [dict(zip(("claim", "a", "b", "verdict_a", "verdict_b"), row, strict=True)) for row in found.claims],
    }
