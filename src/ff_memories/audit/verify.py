"""Check a run as a reviewer would: its record, its files, derived files, measurements, verdicts, and the environment.

A file that differs from the record is a fault, unless a job on this machine wrote it. In that case the run was
recomputed here, possibly with other last bits, and its tables must equal the recorded ones (``compare``).
"""

import os
import platform
import re
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories import tables
from ff_memories.audit import audit, compare, run_files
from ff_memories.audit.audit import LEFT_OUT, OWN, Finding
from ff_memories.audit.audit_inputs import At
from ff_memories.audit.checks import ROWS
from ff_memories.audit.near_equal import tolerances
from ff_memories.audit.sampling import Aim
from ff_memories.base import machine
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.progress import duration
from ff_memories.base.text import counted
from ff_memories.base.text import environment as templates
from ff_memories.config import Settings
from ff_memories.judge.evidence import Evidence, Missing
from ff_memories.judge.register import register
from ff_memories.judge.verdicts import measure
from ff_memories.model.info import read_info
from ff_memories.tables.annotation import ANNOTATOR
from ff_memories.workflow import constraints, dvc_lock_file, rebuild, records
from ff_memories.workflow.dvc_yaml import is_kept
from ff_memories.workflow.jobs import is_intermediate
from ff_memories.workflow.run import Run

PARTS = ("record", "files", "recomputed", "rebuilt", "audit", "verdicts", "environment")
NEEDED = ("record", "files", "rebuilt", "audit", "verdicts")  # for the word VERIFIED
TOLERATED = ("environment",)  # shown, but never a reason to fail: only the results must match
RECOMPUTED = "recomputed.html"  # next to the report, which shows it if it exists
SHOWN = 8  # faults of one part shown on the terminal; the certificate has all
OTHERS = "baselines "  # in front of a table of the models that a run is compared with
PEOPLE = "annotators' answers, which cannot be recomputed"
JUDGED_BY_PEOPLE = tuple(name for name, schema in tables.TABLES.items() if schema.names_people == "annotator")


@dataclass
class CheckedPart:
    """One part of the check: a summary line, notes, faults, and all of it as data."""

    name: str
    line: str
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)  # what was not checked and could have been, in words


@dataclass(frozen=True)
class RebuiltFirst:
    """Where to read a run's files: the rebuilt copy in a folder if there is one, else the file itself.

    Of one folder, all are equal: the processes of the audit keep what they have read by it.
    """

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
    begun: float = field(default_factory=time.monotonic)
    done: dict[str, CheckedPart] = field(default_factory=dict)
    found: list[Finding] = field(default_factory=list)

    @cached_property
    def again(self) -> tuple[list[rebuild.Task], list[str]]:
        """The jobs that can run again here, and the inputs that the others lack."""
        return rebuild.tasks(self.run)

    @cached_property
    def own(self) -> frozenset[str]:
        """The outputs that differ from the record because jobs of this machine wrote them, and nobody edited them."""
        digests: dict[str, str] = {}
        for log in sorted(Path(self.run.results, "logs").rglob("*.log")):
            digests |= machine.logged(log, machine.MADE, {})
        files = lambda path: list(map(str, dvc_lock_file.inside(path))) if os.path.isdir(path) else [path]
        here = lambda path: files(path) and all(digests.get(file) == dvc_lock_file.digest(file) for file in files(path))
        return frozenset(filter(here, dvc_lock_file.differing(self.run)))

    @property
    def tables(self) -> dict[str, list[Finding]]:
        """{table: the findings of all models}; those of other models than the run's have ``OTHERS`` in front."""
        out: dict[str, list[Finding]] = defaultdict(list)
        for finding in self.found:
            out[finding.what if finding.model == OWN else OTHERS + finding.what].append(finding)
        return out


def verify(run: Run, aim: Aim, cores: int, parts: list[str], say: Callable[[CheckedPart], None]) -> list[CheckedPart]:
    """Check a run, and return the parts in order; call ``say`` with each part when it is done.

    Raises ``UserError`` for the audit without `rebuilt`, where only that part makes the text that both read.
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
    lacking = [name for name in NEEDED if name not in {part.name for part in parts}]
    return ([f"not checked: {', '.join(lacking)}"] if lacking else []) + [gap for part in parts for gap in part.open]


def verified(parts: list[CheckedPart]) -> bool:
    """Return whether everything that a verdict rests on was checked, as far as it can be, and is right."""
    return faultless(parts) and not unchecked(parts)


def _record(check: Check) -> CheckedPart:
    recorded, faults, where = dvc_lock_file.read(check.run), records.faults(check.run), check.run.dvc_lock
    how = f"{len(faults)} mismatches" if faults else "all made from the sources, inputs and parameters here"
    line = f"{where}: {len(recorded)} stages, {how}"
    return CheckedPart("record", line, faults=faults, data={"stages": len(recorded)})


def _files(check: Check) -> CheckedPart:
    recorded, where = dvc_lock_file.outputs(check.run), check.run.dvc_lock
    present = {path for path in recorded if os.path.exists(path)}
    differing = dvc_lock_file.differing(check.run).keys() - check.own
    remade = {path for task in check.again[0] for path in task.makes}
    faults = [f"{path}: differs from {where}" for path in sorted(differing)]
    absent = sorted(recorded.keys() - present)
    again = f"run dvc pull to get it, or {check.run.again('FILE')} to make it"
    faults += [f"{p}: missing; {again.replace('FILE', p)}" for p in absent if p not in remade and is_kept(p)]
    further = [path for path in run_files.measured(Path(check.run.results)) if path not in recorded]
    faults += [f"{path}: no stage of {where} made it; remove it, or record it by ff-memories adopt" for path in further]
    private = [path for path in absent if path not in remade and not is_kept(path)]
    some = lambda paths: ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    notes = [f"missing, to be rebuilt below: {some(sorted(remade & set(absent)))}"] if remade & set(absent) else []
    notes += [f"missing, because no copy is kept: {some(private)}"] if private else []
    same = len(present) - len(differing) - len(check.own)
    line = f"{same} of {len(present)} files have the recorded content"
    line += f", {len(check.own)} others were computed here" if check.own else ""
    data = {"recorded": len(recorded), "present": len(present), "absent": absent}
    return CheckedPart("files", line, notes, faults, data)


def _recomputed(check: Check) -> CheckedPart | None:
    """Compare the tables computed here with the recorded ones; ``None`` if no file was computed here."""
    page = Path(check.run.path("report", RECOMPUTED))
    if not check.own:
        page.unlink(missing_ok=True)
        return None
    compared = compare.compare(check.run.dvc_lock, Path(check.run.results), check.run)
    longest = lambda known: sorted(set(known) - {""}, key=len)[-1:]  # of the machine that ran the model
    recorded = longest(row["machine"] for row in records.machines(check.run).values())
    here = longest(map(machine.of_log, sorted(Path(check.run.results, "logs").rglob("*.log"))))
    notes = [compared.summary] if compared.answer == "equal" else []
    notes += [f"recorded on {one}" for one in recorded] + [f"computed here on {one}" for one in here]
    line = f"{'different from' if compared.different else f'{compared.answer} to'} the record"
    shown = templates("report").get_template("recomputed.html.j2")
    write_whole(page, shown.render(found=compared, recorded=recorded, here=here, lines=list(compare.page(compared))))
    return CheckedPart("recomputed", line, notes, compared.different, compare.data(compared))


def _rebuilt(check: Check) -> CheckedPart:
    todo, lacking = check.again
    rebuild.make(check.folder, todo, check.run, check.cores)
    same, differ = rebuild.compare(check.folder, todo, check.run, check.own)
    total = len(same) + len(differ)
    line = f"{len(same)} of {total} files rebuilt from tables, checkpoint and text with the same bytes"
    gone = [path for path in lacking if not is_intermediate(path)]
    notes = [f"{path} is missing, so files that follow from it were not rebuilt" for path in gone]
    return CheckedPart("rebuilt", line, notes, differ, {"same": same, "lacking": lacking})


def _audit(check: Check) -> CheckedPart:
    aim, run = check.aim, check.run
    if aim.seconds is not None:
        aim = replace(aim, seconds=max(1.0, aim.seconds - (time.monotonic() - check.begun)))
    try:
        where = RebuiltFirst(check.folder)
        check.found, faults, library = audit.audit_run(run, aim, where, check.cores)
    except UserError as error:
        return CheckedPart("audit", "could not run", faults=[str(error).partition("\n")[0]])
    notes = []
    for every in check.tables.values():
        near = sum(finding.near_ties for finding in every)
        shown = f" ({counted(near, 'near-tie', 'near-ties')})" if near else ""
        notes.append(audit.statement(every, aim) + shown)
    faults += [difference for finding in check.found for difference in finding.differ]
    data = {name: getattr(aim, name) for name in ("seed", "confidence", "share")} | {
        "seed_was": "drawn" if aim.drawn else "given",
        "tables": {
            (f.what if f.model == OWN else f"{f.model} {f.what}"): {
                "rows": f.population,
                "asked": min(
                    f.population, (Aim() if f.model == OWN else Aim().of_each(len(check.tables[OTHERS + f.what]))).rows
                ),
                "recomputed": f.looked_at,
                "differ": f.differ,
                "near_ties": f.near_ties,
                "largest_difference": f.largest_difference,
                "a_single_wrong_row_is_found_with_probability": f.looked_at / max(1, f.population),
                "statement": audit.statement([f], aim),
            }
            for f in check.found
        },
    }
    line = f"random rows, recomputed with {library} in float64; --seed {aim.seed} draws the same rows again"
    if (precision := run.config.extraction.precision) != "float32":
        notes.insert(0, f"the run was measured in {precision}, with wider limits (docs/verify.md)")
    return CheckedPart("audit", line, notes, faults, data)


def _verdicts(check: Check) -> CheckedPart | None:
    """Say what each verdict rests on and how that was checked; ``None`` if there is nothing to say it of."""
    run, at = check.run, RebuiltFirst(check.folder)
    if not {"rebuilt", "audit"} <= check.done.keys() or not faultless(list(check.done.values())):
        return None
    if not at(run.table("claims")).is_file():
        return None
    how = {Path(path).stem: "rebuilt to the byte" for path in check.done["rebuilt"].data["same"] if "/tables/" in path}
    why, limits = {}, tolerances(run.config.extraction.precision)
    for name, findings in check.tables.items():
        hanging = [f for f in findings if f.hangs(limits) and f.what != LEFT_OUT]
        if all(f.looked_at or not f.population for f in findings) and not hanging:
            how[name] = audit.statement(findings, check.aim)
        elif hanging:
            most = max(hanging, key=lambda f: f.near_ties / f.looked_at)
            share = (
                f"{most.near_ties} of {most.looked_at} rows hang on near-ties, more than {100 * limits.near_ties:g} %"
            )
            why[name] = f"{name} shows too little, because {share}"
    if {"triggers", LEFT_OUT} <= how.keys():
        how["triggers"] += f"; {how[LEFT_OUT]}"
    rests = on_tables(run, at, how)
    people = sorted(claim for claim, (_, on) in rests.items() if any(said and PEOPLE in said for said in on.values()))
    lacking: dict[str, list[str]] = defaultdict(list)
    for claim, (_, on) in rests.items():
        for name in (name for name, said in on.items() if said is None):
            lacking[name].append(claim)
    line = (
        f"{sum(all(on.values()) for _, on in rests.values())} of {len(rests)} verdicts rest on tables that were checked"
    )
    notes = [f"{', '.join(people)} rest on {PEOPLE}"] if people else []
    if beside := _beside(check):
        notes.append(f"not recomputed, because no verdict rests on them: {', '.join(beside)}")
    data = {claim: {"verdict": verdict_, "rests_on": on} for claim, (verdict_, on) in rests.items()}
    open_ = [f"{why.get(name, f'{name} was not checked')}: {', '.join(claims)}" for name, claims in lacking.items()]
    return CheckedPart("verdicts", line, notes, data={"verdicts": data}, open=open_)


def on_tables(run: Run, at: At, how: Mapping[str, str]) -> dict[str, tuple[str, dict[str, str | None]]]:
    """Return {claim: its verdict, and {table behind it: how that was checked, ``None`` if it was not}}.

    ``at``: from a file of the run to the place to read it from. ``how``: {table: how it was checked}; tables of other
    models have ``OTHERS`` in front.
    """
    rests, read = {}, behind(run, at)
    by_people = (at(run.table(name)) for name in JUDGED_BY_PEOPLE)
    people = any(bool((tables.read(file)["annotator"] != ANNOTATOR).any()) for file in by_people if file.is_file())
    for claim, verdict_, baseline in tables.read(at(run.table("claims"))).select("claim", "verdict", "baseline").rows():
        names = sorted(read[claim])
        on = {name: how.get(name) for name in [*names, *(OTHERS + name for name in names if baseline is not None)]}
        if people:
            on |= {name: f"{checked}; {PEOPLE}" for name, checked in on.items() if checked and name in JUDGED_BY_PEOPLE}
        rests[claim] = verdict_, on
    return rests


class ReadTables(dict[str, pl.DataFrame]):
    """Tables that know which of them were read."""

    def __init__(self, frames: Mapping[str, pl.DataFrame]):
        super().__init__(frames)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> pl.DataFrame:
        self.read.add(name)
        return super().__getitem__(name)


def behind(run: Run, at: At) -> dict[str, set[str]]:
    """Return {claim: the tables that its measure reads}, found by measuring it."""
    names = [name for name in tables.TABLES if Path(at(run.table(name))).is_file()]
    frames = {name: tables.read(at(run.table(name))) for name in names}
    info = read_info(at(run.path("model", "info.json")))
    evidence = Evidence.of_run(Settings(run.resolved), info, at(run.dictionary), frames)
    tables_read = {}
    for claim in register():
        reading = ReadTables(frames)
        with suppress(Missing):
            measure(claim, replace(evidence, tables=reading, seed=None))
        tables_read[claim.id] = reading.read
    return tables_read


def _beside(check: Check) -> list[str]:
    """Return the measured tables and numbers, below the run's folder, that the audit does not recompute."""
    made = {path for task in check.again[0] for path in task.makes}
    left = (path.removeprefix(f"{check.run.results}/") for path in dvc_lock_file.outputs(check.run) if path not in made)
    names = ((path, re.fullmatch(r"(?:models/[^/]+/)?tables/(\w+)\.parquet", path)) for path in left)
    return sorted(
        {
            re.sub("models/[^/]+/", "models/*/", path)
            for path, table in names
            if path.startswith("sensitivity/") or path.endswith("/perplexity.json") or (table and table[1] not in ROWS)
        }
    )


def _environment(check: Check) -> CheckedPart | None:
    """Compare the installed packages with the locked ones; ``None`` in a folder without a lock, as `run` makes it."""
    if not constraints.LOCK.is_file():
        return None
    wanted = constraints.pins()
    count, other = constraints.differences(wanted)
    line = f"{count - len(other)} of {count} packages have the version in {constraints.LOCK}"
    faults = [f"{name} {here}, expected {wanted[name]}" for name, here in other.items()]
    lock = dvc_lock_file.digest(constraints.LOCK, "sha256")
    data = {"constraints_sha256": lock, "packages": count, "python": platform.python_version()}
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


def page(part: CheckedPart) -> Iterator[str]:
    """Yield one part's lines for the terminal."""
    mark = "FAIL" if part.faults and part.name not in TOLERATED else "ok"
    mark = "note" if mark == "ok" and (part.faults or part.open) else mark
    yield f"{mark:4} {part.name:12} {part.line}"
    yield from (f"{'':18}{note}" for note in [*part.notes, *part.open])
    sign = "-" if part.name in TOLERATED else "!"
    yield from (f"{'':16}{sign} {fault}" for fault in part.faults[:SHOWN])
    if len(part.faults) > SHOWN:
        yield f"{'':16}{sign} and {len(part.faults) - SHOWN} more"


def verdict(parts: list[CheckedPart], seconds: float, ended: bool = False) -> str:
    """Return the last line for the terminal; ``ended``: something ended the check before it was complete."""
    lacking = "".join(f"; {said}" for said in unchecked(parts))
    if ended:
        outcome = "no fault" if faultless(parts) else "faults"
        return f"NOT VERIFIED: ended after {duration(seconds)}{_with_few(parts)}, {outcome} until then{lacking}"
    if not faultless(parts):
        return f"NOT VERIFIED in {duration(seconds)}{lacking}"
    if lacking:
        return f"NO FAULT FOUND in {duration(seconds)}{_with_few(parts)}, but not all was checked{lacking}"
    again = next((part for part in parts if part.name == "recomputed"), None)
    said = f", recomputed: {'; '.join([again.line, again.data['summary']])}," if again else ""
    return f"VERIFIED{_with_few(parts)}{said} in {duration(seconds)}"


def _with_few(parts: list[CheckedPart]) -> str:
    """Say how few rows of a table were looked at, if it is fewer than usual for some table."""
    every = [sample for part in parts if part.name == "audit" for sample in part.data.get("tables", {}).values()]
    few = [(sample["recomputed"], sample["asked"]) for sample in every if sample["recomputed"] < sample["asked"]]
    if not few:
        return ""
    rows, asked = max(few, key=lambda one: (one[1], -one[0]))
    return f" with a smaller sample than usual ({counted(rows, 'row', 'rows')} of a table, not {asked})"


def certificate(parts: list[CheckedPart], seconds: float, run: Run, scope: str, ended: bool = False) -> dict[str, Any]:
    """Return all findings as data; ``ended``: until something ended the check before it was complete."""
    return {
        "certificate": "ff-memories verify",
        "version": 3,
        "verdict": f"verified{_with_few(parts)}" if verified(parts) and not ended else "not verified",
        "last_line": verdict(parts, seconds, ended),
        "complete": not ended,
        "faultless": faultless(parts),
        "not_checked": unchecked(parts),
        "run": run.config.run,
        "model": scope,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "commit": commit(),
        "dvc_lock_sha256": dvc_lock_file.digest(run.dvc_lock, "sha256"),
        "machine": machine.hardware(),
        "parts": {
            part.name: {"summary": part.line, "notes": part.notes, "faults": part.faults, **part.data} for part in parts
        },
    }


def commit(folder: Path = Path()) -> str | None:
    """Return the commit of a folder's repository, with a ``+`` if tracked files differ from it.

    ``None`` outside of git, or if the repository does not track the folder.
    """
    ask = lambda *words: subprocess.run(
        ["git", "-C", folder, *words], capture_output=True, text=True, check=True
    ).stdout.strip()
    try:
        ask("ls-files", "--error-unmatch", ".")
        return ask("rev-parse", "HEAD") + ("+" if ask("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
