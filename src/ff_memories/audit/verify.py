"""Check a run as a reviewer would: its record, its files, derived files, measurements and verdicts.

A file that differs from the record is a fault, unless a job on this machine wrote it. In that case the run was
recomputed here, possibly with other last bits, and its tables must equal the recorded ones (``compare``).
"""

import math
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from subprocess import DEVNULL, CalledProcessError, check_output
from typing import Any

import polars as pl

from ff_memories import tables
from ff_memories.audit import audit, compare
from ff_memories.audit.audit import LEFT_OUT, OWN, Finding
from ff_memories.audit.audit_inputs import At
from ff_memories.audit.near_equal import tolerances
from ff_memories.audit.recompute import ROWS
from ff_memories.audit.sampling import Aim
from ff_memories.base import machine
from ff_memories.base.errors import UserError
from ff_memories.base.files import home, write_whole
from ff_memories.base.progress import duration
from ff_memories.base.text import counted, environment
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

NEEDED = ("record", "files", "rebuilt", "audit", "verdicts")  # for the word VERIFIED
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
    at: RebuiltFirst
    until: float  # the time from which the audit begins no further round
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
            digests |= made if isinstance(made := machine.logged(log, machine.MADE, {}), dict) else {}

        def here(path: str) -> bool:
            files = [*map(str, dvc_lock_file.inside(path))] if os.path.isdir(path) else [path]
            return bool(files) and all(digests.get(file) == dvc_lock_file.digest(file) for file in files)

        return frozenset(filter(here, dvc_lock_file.differing(self.run)))

    @property
    def tables(self) -> dict[str, list[Finding]]:
        """{table: the findings of all models}; those of other models than the run's have ``OTHERS`` in front."""
        out: dict[str, list[Finding]] = defaultdict(list)
        for finding in self.found:
            out[finding.what if finding.model == OWN else OTHERS + finding.what].append(finding)
        return out


def verify(
    run: Run, aim: Aim, cores: int, parts: list[str], say: Callable[[CheckedPart], None], until: float = math.inf
) -> list[CheckedPart]:
    """Check a run, and return the parts in order; call ``say`` with each part when it is done.

    ``until``: the time (``time.monotonic``) from which the audit begins no further round of random rows.
    """
    with tempfile.TemporaryDirectory(prefix="ff-memories-verify-") as folder:
        check = Check(run, aim, cores, RebuiltFirst(Path(folder)), until)
        for name, part_of in PARTS.items():
            wanted = name in parts or (name == "recomputed" and "files" in parts)  # excused files must be equal
            if wanted and (part := part_of(check)) is not None:
                check.done[name] = part
                say(part)
        return list(check.done.values())


def faultless(parts: list[CheckedPart]) -> bool:
    """Return whether no part has a fault."""
    return not any(part.faults for part in parts)


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
    return CheckedPart("record", f"{where}: {len(recorded)} stages, {how}", faults=faults)


def _files(check: Check) -> CheckedPart:
    recorded, where = dvc_lock_file.outputs(check.run), check.run.dvc_lock
    remade = {path for task in check.again[0] for path in task.makes}
    absent = sorted(path for path in recorded if not os.path.exists(path))
    lost = [path for path in absent if path not in remade]
    differing = dvc_lock_file.differing(check.run).keys() - check.own
    again = f"run dvc pull to get it, or {check.run.again('FILE')} to make it"
    faults = [f"{path}: differs from {where}" for path in sorted(differing)]
    faults += [f"{path}: missing; {again.replace('FILE', path)}" for path in lost if is_kept(path)]
    further = [path for path in compare.measured(Path(check.run.results)) if path not in recorded]
    faults += [f"{path}: no stage of {where} made it; remove it, or record it by ff-memories adopt" for path in further]
    missing = {"to be rebuilt below": len(absent) - len(lost), "with no copy kept": len(lost) - sum(map(is_kept, lost))}
    notes = [f"{counted(n, 'file', 'files')} missing, {why}" for why, n in missing.items() if n]
    present = len(recorded) - len(absent)
    line = f"{present - len(differing) - len(check.own)} of {present} files have the recorded content"
    line += f", {len(check.own)} others were computed here" if check.own else ""
    return CheckedPart("files", line, notes, faults, {"absent": absent})


def _longest(machines: Iterable[str]) -> list[str]:
    """Return the machine that is described at most length, as the one that ran the model is, if there is any."""
    return sorted(set(machines) - {""}, key=len)[-1:]


def _recomputed(check: Check) -> CheckedPart | None:
    """Compare the tables computed here with the recorded ones; ``None`` if no file was computed here."""
    page = Path(check.run.path("report", RECOMPUTED))
    if not check.own:
        page.unlink(missing_ok=True)
        return None
    compared = compare.compare(check.run.dvc_lock, Path(check.run.results), check.run)
    recorded = _longest(row.get("machine", "") for row in records.machines(check.run).values())
    here = _longest(map(machine.of_log, sorted(Path(check.run.results, "logs").rglob("*.log"))))
    notes = [compared.summary] if compared.answer == "equal" else []
    notes += [f"recorded on {one}" for one in recorded] + [f"computed here on {one}" for one in here]
    line = f"{'different from' if compared.different else f'{compared.answer} to'} the record"
    shown = environment("report").get_template("recomputed.html.j2")
    write_whole(page, shown.render(found=compared, recorded=recorded, here=here, lines=list(compare.page(compared))))
    return CheckedPart("recomputed", line, notes, compared.different, compare.data(compared))


def _rebuilt(check: Check) -> CheckedPart:
    todo, lacking = check.again
    rebuild.make(check.at.folder, todo, check.run, check.cores)
    same, differ = rebuild.compare(check.at.folder, todo, check.run, check.own)
    total = len(same) + len(differ)
    line = f"{len(same)} of {total} files rebuilt from tables, checkpoint and text with the same bytes"
    gone = [path for path in lacking if not is_intermediate(path)]
    notes = [f"{path} is missing, so files that follow from it were not rebuilt" for path in gone]
    if differ and constraints.LOCK.is_file() and (other := constraints.differences()):
        notes.append(f"other packages than in {constraints.LOCK}: {', '.join(other)}")
    return CheckedPart("rebuilt", line, notes, differ, {"same": same, "lacking": lacking})


def _audit(check: Check) -> CheckedPart:
    aim, run = check.aim, check.run
    try:
        check.found, faults = audit.audit_run(run, aim, check.at, check.cores, check.until)
    except UserError as error:
        why = str(error).partition("\n")[0]
        has_text = check.at(run.path("corpus", "corpus.safetensors")).exists()
        hint = "" if has_text else "; the part rebuilt makes the text"
        return CheckedPart("audit", f"could not run{hint}", faults=[why])
    notes = []
    if (precision := run.config.extraction.precision) != "float32":
        notes.append(f"the run was measured in {precision}, with wider limits (docs/verify.md)")
    notes += [audit.statement(every, aim) for every in check.tables.values()]
    faults += [difference for finding in check.found for difference in finding.differ]
    usual, of_tables = Aim(), dict[str, Any]()
    for f in check.found:
        name, its = f.what, usual
        if f.model != OWN:
            name, its = f"{f.model} {f.what}", usual.of_each(len(run.config.baselines.names))
        of_tables[name] = asdict(f) | {"asked": min(f.rows, its.rows), "statement": audit.statement([f], aim)}
    data: dict[str, Any] = {"seed": aim.seed, "confidence": aim.confidence, "share": aim.share}
    data |= {"seed_was": "drawn" if aim.drawn else "given", "tables": of_tables}
    reference = "transformers" if run.config.model.has_tokenizer else "the equations"
    how = f"recomputed with {reference}, in float64 wherever float32 differs"
    line = f"random rows, {how}; --seed {aim.seed} draws the same rows again"
    return CheckedPart("audit", line, notes, faults, data)


def _verdicts(check: Check) -> CheckedPart | None:
    """Say what each verdict rests on and how that was checked; ``None`` if there is nothing to say it of."""
    run, claims = check.run, check.at(check.run.table("claims"))
    if not ({"rebuilt", "audit"} <= check.done.keys() and faultless(list(check.done.values())) and claims.is_file()):
        return None
    how = {Path(path).stem: "rebuilt to the byte" for path in check.done["rebuilt"].data["same"] if "/tables/" in path}
    why, limits = {}, tolerances(run.config.extraction.precision)
    for name, findings in check.tables.items():
        hanging = [f for f in findings if f.hangs(limits) and f.what != LEFT_OUT]
        if hanging:
            most = max(hanging, key=lambda f: f.near_ties / f.recomputed)
            rows = f"{most.near_ties} of {most.recomputed} rows"
            why[name] = f"{name} shows too little: {rows} hang on near-ties, more than {100 * limits.near_ties:g} %"
        else:
            how[name] = audit.statement(findings, check.aim)
    if {"triggers", LEFT_OUT} <= how.keys():
        how["triggers"] += f"; {how[LEFT_OUT]}"
    for name in JUDGED_BY_PEOPLE:
        if name in how and (tables.read(check.at(run.table(name)))["annotator"] != ANNOTATOR).any():
            how[name] += f"; {PEOPLE}"
    rests, lacking, people, read = {}, defaultdict[str, list[str]](list), list[str](), behind(run, check.at)
    for claim, verdict_, baseline in tables.read(claims).select("claim", "verdict", "baseline").rows():
        names = sorted(read[claim])
        names += [OTHERS + name for name in names if baseline is not None]
        on = {name: how.get(name) for name in names}
        rests[claim] = {"verdict": verdict_, "rests_on": on}
        people += [claim] if any(PEOPLE in said for said in on.values() if said) else []
        for name in (name for name in names if name not in how):
            lacking[name].append(claim)
    checked = sum(None not in its["rests_on"].values() for its in rests.values())
    line = f"{checked} of {len(rests)} verdicts rest on tables that were checked"
    notes = [f"{', '.join(people)} rest on {PEOPLE}"] if people else []
    if beside := _beside(check):
        notes.append(f"not recomputed, because no verdict rests on them: {', '.join(beside)}")
    open_ = [f"{why.get(name, f'{name} was not checked')}: {', '.join(claims_)}" for name, claims_ in lacking.items()]
    return CheckedPart("verdicts", line, notes, data={"verdicts": rests}, open=open_)


def _beside(check: Check) -> list[str]:
    """Return the measured tables and numbers, below the run's folder, that the audit does not recompute."""
    made = {path for task in check.again[0] for path in task.makes}
    left = (path.removeprefix(f"{check.run.results}/") for path in dvc_lock_file.outputs(check.run) if path not in made)
    named = re.compile(r"(?:sensitivity|golden)/|(?:models/[^/]+/)?(?:perplexity|tables/(\w+))\.")
    names = ((path, named.match(path)) for path in left)
    return sorted({re.sub("models/[^/]+/", "models/*/", path) for path, name in names if name and name[1] not in ROWS})


PARTS: dict[str, Callable[[Check], CheckedPart | None]] = {
    part.__name__.removeprefix("_"): part for part in (_record, _files, _recomputed, _rebuilt, _audit, _verdicts)
}


class ReadTables(dict[str, pl.DataFrame]):
    """Tables that add the names of those that were read to a set."""

    read: set[str]

    def __getitem__(self, name: str) -> pl.DataFrame:
        self.read.add(name)
        return super().__getitem__(name)


def behind(run: Run, at: At) -> dict[str, set[str]]:
    """Return {claim: the tables that its measure reads}, found by measuring it."""
    names = [name for name in tables.TABLES if Path(at(run.table(name))).is_file()]
    frames = {name: tables.read(at(run.table(name))) for name in names}
    info = read_info(at(run.path("model", "info.json")))
    evidence = Evidence.of_run(Settings(run.resolved), info, at(run.dictionary), frames)
    tables_read: dict[str, set[str]] = {}
    for claim in register():
        reading = ReadTables(frames)
        reading.read = tables_read[claim.id] = set()
        with suppress(Missing):
            measure(claim, replace(evidence, tables=reading, seed=None))
    return tables_read


def page(part: CheckedPart) -> Iterator[str]:
    """Yield one part's lines for the terminal."""
    mark = "FAIL" if part.faults else "note" if part.open else "ok"
    yield f"{mark:4} {part.name:12} {part.line}"
    yield from (f"{'':18}{note}" for note in [*part.notes, *part.open])
    yield from compare.first(part.faults, SHOWN, indent=16)


def verdict(parts: list[CheckedPart], seconds: float) -> str:
    """Return the last line for the terminal."""
    lacking = "".join(f"; {said}" for said in unchecked(parts))
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


def certificate(parts: list[CheckedPart], seconds: float, run: Run, scope: str) -> dict[str, Any]:
    """Return all findings as data."""
    return {
        "certificate": "ff-memories verify",
        "verdict": f"verified{_with_few(parts)}" if verified(parts) else "not verified",
        "last_line": verdict(parts, seconds),
        "faultless": faultless(parts),
        "not_checked": unchecked(parts),
        "run": run.config.run,
        "model": scope,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "commit": commit(home()),  # of the code; git obeys the settings of the folder where it runs
        "dvc_lock_sha256": dvc_lock_file.digest(run.dvc_lock, "sha256"),
        "machine": machine.hardware(),
        "parts": {
            part.name: {"summary": part.line, "notes": part.notes, "faults": part.faults, **part.data} for part in parts
        },
    }


def commit(folder: Path) -> str | None:
    """Return the commit of a folder's repository, with a ``+`` if tracked files differ from it.

    ``None`` outside of git, or if the repository does not track the folder.
    """

    git = partial(check_output, cwd=folder, text=True, stderr=DEVNULL)
    try:
        git(["git", "ls-files", "--error-unmatch", "."])
        return git(["git", "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty=+"]).strip()
    except (OSError, CalledProcessError):
        return None
