"""Check a run as a reviewer would: its record, its files, derived files, measurements, and the environment.

A file that differs from the record is a fault, unless a job on this machine wrote it. In that case the run was
recomputed here, possibly with other last bits, and its tables must equal the recorded ones (``compare``).
"""

import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ff_memories.audit import compare
from ff_memories.audit.recompute import audit
from ff_memories.audit.recompute.sampling import Aim
from ff_memories.audit.verify import computed, rests
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.report.wording import counted
from ff_memories.workflow.engines import lock
from ff_memories.workflow.engines.stages import is_kept
from ff_memories.workflow.recorded import consistency, environment, rebuild
from ff_memories.workflow.runs.run import Run

PARTS = ("record", "files", "recomputed", "rebuilt", "audit", "verdicts", "environment")
NEEDED = ("record", "files", "rebuilt", "audit", "verdicts")  # for the word VERIFIED
TOLERATED = ("environment",)  # shown, but never a reason to fail: only the results must match


@dataclass
class CheckedPart:
    """One part of the check: a summary line, notes, faults, and all of it as data.

    ``open``: what was not checked and could have been, in words.
    """

    name: str
    line: str
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RebuiltFirst:
    """Where to read a run's files: the rebuilt copy in a folder if there is one, else the file itself."""

    folder: Path

    def __call__(self, path: str) -> Path:
        again = self.folder / path
        return again if again.exists() else Path(path)


@dataclass
class Check:
    """The run to check, and how thoroughly to check it."""

    run: Run
    aim: Aim
    cores: int
    folder: Path
    done: dict[str, CheckedPart] = field(default_factory=dict)

    @cached_property
    def again(self) -> tuple[list[rebuild.Task], list[str]]:
        """The jobs that can run again here, and the inputs that the others lack."""
        return rebuild.tasks(self.run)

    @cached_property
    def own(self) -> frozenset[str]:
        """The outputs that differ from the record because this machine computed them."""
        differing, known = lock.differing(self.run), computed.digests(self.run.results)
        return frozenset(path for path in differing if computed.here(path, known))


def verify(run: Run, aim: Aim, cores: int, parts: list[str], say: Callable[[CheckedPart], None]) -> list[CheckedPart]:
    """Check a run, and return the parts in order; call ``say`` with each part when it is done.

    Raises:
        UserError: the audit without `rebuilt`, where only that part makes the text that both read.
    """
    corpus = run.path("corpus", "corpus.safetensors")
    if "audit" in parts and "rebuilt" not in parts and not os.path.exists(corpus):
        raise UserError(f"--only audit: {corpus} is not here, because no record keeps text", "add rebuilt: it makes it")
    done = []
    with tempfile.TemporaryDirectory(prefix="ff-memories-verify-") as folder:
        check = Check(run, aim, cores, Path(folder))
        for name in PARTS:
            wanted = name in parts or (name == "recomputed" and "files" in parts)  # excused files must be equal
            part = CHECKS[name](check) if wanted else None
            if part is not None:
                done.append(part)
                check.done[name] = part
                say(part)
    return done


def faultless(parts: list[CheckedPart]) -> bool:
    """Return whether no part that counts has a fault."""
    return not any(part.faults for part in parts if part.name not in TOLERATED)


def unchecked(parts: list[CheckedPart]) -> list[str]:
    """Return, in words, what was not checked and could have been."""
    looked_at = {part.name for part in parts}
    lacking = [name for name in NEEDED if name not in looked_at]
    return ([f"not checked: {', '.join(lacking)}"] if lacking else []) + [said for part in parts for said in part.open]


def smaller(parts: list[CheckedPart]) -> int | None:
    """Return the audit's number of rows of a table, if it is smaller than usual for some table; else ``None``."""
    every = [said for part in parts if part.name == "audit" for said in part.data.get("tables", {}).values()]
    few = [said["recomputed"] for said in every if said["recomputed"] < min(said["rows"], Aim().rows)]
    return min(few, default=None)


def verified(parts: list[CheckedPart]) -> bool:
    """Return whether everything that a verdict rests on was checked, as far as it can be, and is right."""
    return faultless(parts) and not unchecked(parts)


def _record(check: Check) -> CheckedPart:
    recorded = lock.read(check.run)
    faults = consistency.faults(check.run)
    where = check.run.dvc_lock
    line = f"{where}: {len(recorded)} stages, all made from the sources, inputs and parameters here"
    if faults:
        line = f"{where}: {len(recorded)} stages, {len(faults)} mismatches"
    return CheckedPart("record", line, faults=faults, data={"stages": len(recorded)})


def _files(check: Check) -> CheckedPart:
    recorded, where = lock.outputs(check.run), check.run.dvc_lock
    present = {path for path in recorded if os.path.exists(path)}
    differing = lock.differing(check.run).keys() - check.own
    remade = {path for task in check.again[0] for path in task.makes}
    faults = [f"{path}: differs from {where}" for path in sorted(differing)]
    absent = sorted(recorded.keys() - present)
    again = f"run dvc pull to get it, or {check.run.again('FILE')} to make it"
    faults += [f"{p}: missing; {again.replace('FILE', p)}" for p in absent if p not in remade and is_kept(p)]
    private = [path for path in absent if path not in remade and not is_kept(path)]
    notes = [f"missing, to be rebuilt below: {_some(sorted(remade & set(absent)))}"] if remade & set(absent) else []
    notes += [f"missing, because no copy is kept: {_some(private)}"] if private else []
    same = len(present) - len(differing) - len(check.own)
    line = f"{same} of {len(present)} files have the recorded content"
    line += f", {len(check.own)} others were computed here" if check.own else ""
    return CheckedPart(
        "files", line, notes, faults, {"recorded": len(recorded), "present": len(present), "absent": absent}
    )


def _some(paths: list[str]) -> str:
    """Return the first few names and the number of the others."""
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _recomputed(check: Check) -> CheckedPart | None:
    """Compare the tables computed here with the recorded ones; ``None`` if no file was computed here."""
    page = Path(check.run.path("report", computed.PAGE))
    if not check.own:
        page.unlink(missing_ok=True)
        return None
    found = compare.compare(check.run.dvc_lock, Path(check.run.results), check.run)
    made, here = computed.machines(check.run)
    notes = [found.summary] if found.answer == "equal" else []
    notes += [f"recorded on {machine}" for machine in made] + [f"computed here on {machine}" for machine in here]
    part = CheckedPart("recomputed", f"{found.answer} to the record", notes, found.different, compare.data(found))
    if found.different:
        part.line = "different from the record"
    write_whole(page, computed.page(found, made, here))
    return part


def _rebuilt(check: Check) -> CheckedPart:
    todo, lacking = check.again
    rebuild.make(check.folder, todo, check.run, check.cores)
    found = rebuild.compare(check.folder, todo, check.run, check.own)
    total = len(found.same) + len(found.differ)
    line = f"{len(found.same)} of {total} files rebuilt from tables, checkpoint and text with the same bytes"
    notes = [f"{path} is missing, so files that follow from it were not rebuilt" for path in lacking]
    return CheckedPart("rebuilt", line, notes, found.differ, {"same": found.same, "lacking": lacking})


def _audit(check: Check) -> CheckedPart:
    aim, run = check.aim, check.run
    try:
        findings, faults, library = audit.audit_run(run, aim, RebuiltFirst(check.folder), check.cores)
    except UserError as error:
        why = str(error).partition("\n")[0]
        if "rebuilt" not in check.done:
            why += "; if no record keeps this file, check the part rebuilt as well, which makes it"
        return CheckedPart("audit", "could not run", faults=[why])
    notes: list[str] = []
    data: dict[str, Any] = {
        "seed": aim.seed,
        "seed_was": "drawn" if aim.drawn else "given",
        "confidence": aim.confidence,
        "share": aim.share,
        "tables": {},
    }
    for finding in findings:
        said = finding.statement(aim)
        near = f" ({counted(finding.near_ties, 'near-tie', 'near-ties')})" if finding.near_ties else ""
        notes.append(said + near)
        faults += finding.differ
        data["tables"][finding.what] = {
            "rows": finding.population,
            "recomputed": finding.looked_at,
            "differ": finding.differ,
            "near_ties": finding.near_ties,
            "largest_difference": finding.largest_difference,
            "a_single_wrong_row_is_found_with_probability": finding.looked_at / max(1, finding.population),
            "statement": said,
        }
    how = f"recomputed with {library} in float64"
    line = f"random rows, {how}; --seed {aim.seed} draws the same rows again"
    if (precision := run.config.extraction.precision) != "float32":
        notes.insert(0, f"the run was measured in {precision}, with wider limits (docs/equality.md)")
    return CheckedPart("audit", line, notes, faults, data)


def _verdicts(check: Check) -> CheckedPart | None:
    """Say what each verdict rests on and how that was checked; ``None`` if there is nothing to say it of."""
    if "rebuilt" not in check.done or "audit" not in check.done:
        return None
    run, at = check.run, RebuiltFirst(check.folder)
    if not at(run.table("claims")).is_file() or not faultless(list(check.done.values())):
        return None
    how = {Path(path).stem: "rebuilt to the byte" for path in check.done["rebuilt"].data["same"] if "/tables/" in path}
    looked_at = check.done["audit"].data["tables"]
    how |= {name: said["statement"] for name, said in looked_at.items()}
    how["triggers"] = f"{looked_at['triggers']['statement']}; {looked_at[audit.LEFT_OUT]['statement']}"
    found = rests.verdicts(run, at, how)
    people = sorted(
        claim for claim, on in found.items() if any(said and rests.PEOPLE in said for said in on.checked.values())
    )
    line = f"{sum(on.whole for on in found.values())} of {len(found)} verdicts rest on tables that were checked"
    notes = [f"{', '.join(people)} rest on {rests.PEOPLE}"] if people else []
    notes += [f"{name} was not recomputed: {why}; no verdict rests on it" for name, why in _beside(check)]
    data = {"verdicts": rests.data(found)}
    return CheckedPart("verdicts", line, notes, data=data, open=list(rests.unchecked(found)))


def _beside(check: Check) -> list[tuple[str, str]]:
    """Return the measured files that no verdict rests on and that the audit does not recompute, and why."""
    made = {path for task in check.again[0] for path in task.makes}
    left = [path.removeprefix(f"{check.run.results}/") for path in lock.outputs(check.run) if path not in made]
    whole = "only all of the training text tells, so only its bounds were checked"
    return [("firing", whole)] * ("tables/firing.parquet" in left) + [
        (path, "it takes as long as the run") for path in left if path.startswith(("sensitivity/", "tables/released"))
    ]


def _environment(check: Check) -> CheckedPart | None:
    """Compare the installed packages with the locked ones; ``None`` in a folder without a lock, as `run` makes it."""
    if not environment.LOCK.is_file():
        return None
    wanted = environment.pins()
    count, other = environment.differences(wanted)
    line = f"{count - len(other)} of {count} packages have the version in {environment.LOCK}"
    faults = [f"{name} {here}, expected {wanted[name]}" for name, here in other.items()]
    data = {"constraints_sha256": environment.digest(), "packages": count, "python": platform.python_version()}
    return CheckedPart("environment", line, faults=faults, data=data)


CHECKS: dict[str, Callable[[Check], CheckedPart | None]] = {
    "record": _record,
    "files": _files,
    "recomputed": _recomputed,
    "rebuilt": _rebuilt,
    "audit": _audit,
    "verdicts": _verdicts,
    "environment": _environment,
}
