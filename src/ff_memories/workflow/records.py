"""A run's record in dvc.lock: ``adopt`` writes it after ``snakemake``, ``restore`` heeds it after ``dvc pull``.

``faults`` says where the record contradicts the Snakefile or itself: a stage must have read what another one wrote. DVC
checks its cache, by sizes and times; here, digests of the files' bytes are compared.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from ff_memories.base import foreign, machine
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_json, write_whole
from ff_memories.base.job_costs import costs
from ff_memories.inputs.fetch import fetch
from ff_memories.workflow import dvc_lock_file, dvc_yaml, jobs, rebuild
from ff_memories.workflow.dvc_yaml import Stage
from ff_memories.workflow.run import Run, snakefile

MODIFIED, DELETED = "modified", "deleted"  # how a file differs
SCRATCH = Path(".dvc/tmp")  # on the run's disk, outside the checkout


def adopt(run: Run) -> list[str]:
    """Record Snakemake's outputs in dvc.lock and DVC's cache; return the stages whose record changed.

    Raises ``UserError`` if dvc.yaml does not match the Snakefile, if Snakemake has jobs left to run, or if a file is
    not as a job left it; ``dvc commit`` alone would record any file.
    """
    stages = dvc_yaml.check(run)
    dvc_yaml.write_sources(run, stages)
    before = dvc_lock_file.read(run) if run.dvc_lock.is_file() else {}
    outputs = {path for stage in stages.values() for path in stage.writes}
    with jobs.workflow(run, cut=True) as read:
        if due := sorted({job.rule.name for job in read.dag.needrun_jobs() if job.output}):
            raise UserError(f"not adopted, because Snakemake still has to run {', '.join(due)}", f"run {run.again()}")
        if missing := jobs.missing_outputs(read, run):
            raise UserError(f"not adopted, because {missing[0]} is missing", f"run {run.again(*missing)}")
        every = [out for job in read.dag.jobs for out in job.output if str(out) in outputs]
        refuse_edited(run, [(str(out), read.persistence.metadata(out)) for out in every], "not adopted")
    dvc_yaml.look_at(run)
    dvc_yaml.dvc("commit", "--force", "--quiet", str(run.dvc_yaml), str(dvc_yaml.stage_of_sources(run)))
    after = dvc_lock_file.read(run)
    if others := [re.escape(name) for name in after.keys() - stages.keys()]:  # DVC keeps them
        stage = re.compile(rf"^  ({'|'.join(others)}):\n(    .*\n)*", re.MULTILINE)
        write_whole(run.dvc_lock, stage.sub("", run.dvc_lock.read_text(encoding="utf-8")))
    keep_machines(run)
    return sorted(name for name in stages if before.get(name) != after[name])


def refuse_edited(run: Run, outputs: list[tuple[str, Any]], why: str) -> None:
    """Raise ``UserError`` if outputs, given with Snakemake's record of them, are not those of jobs on the inputs here.

    Those that dvc.lock has may have other times: DVC links files to its cache. ``why``: what is refused.
    """
    recorded = {path: md5 for path, (_, md5) in dvc_lock_file.outputs(run).items()} if run.dvc_lock.is_file() else {}
    faults = list[str]()
    for path, record in outputs:
        is_recorded = recorded.get(path) == dvc_lock_file.content(path)
        faults += jobs.changed_inputs(path, record) if is_recorded else jobs.output_faults(path, record)
    if faults:
        undo = f"dvc checkout, ff-memories restore{run.option}" if recorded else "delete them"
        lines = "\n  ".join([f"{why}:", *dict.fromkeys(faults)])
        raise UserError(lines, f"if only times changed, {run.program} --touch; else {undo}, {run.again()}")


def restore(run: Run) -> tuple[list[str], list[str], dict[str, str]]:
    """Make Snakemake take the files that match dvc.lock for up to date, and only them.

    First fetch text and model, if they are missing; then rebuild, in a scratch folder, files that DVC keeps no copy of.
    Outputs that Snakemake has computed here since, and that are up to date, stay as they are, for ``adopt``. Return the
    stages that were rebuilt, those not yet adopted, and {stage to rerun: the reason}.
    """
    stages = dvc_yaml.check(run)
    dvc_yaml.write_sources(run, stages)
    dvc_yaml.look_at(run)
    _fetch(run)
    rebuilt = _rebuild(run, stages)
    changed, reasons = changes(run, stages), dict[str, set[str]]()
    new, shards, stale = set[str](), set[str](), list[Any]()
    with jobs.workflow(run, forceall=True) as read:
        for job in [job for job in read.dag.jobs if job.output]:
            name = dvc_yaml.stage_of(job)
            states = _concerning(job, stages[name], changed.get(name, {})) if name in stages else {}
            files = [(str(out), read.persistence.metadata(out)) for out in job.output]
            wrong = any(True for file in files for _ in jobs.output_faults(*file))
            sound = not wrong and not read.persistence.params_changed(job)
            if jobs.makes_intermediates(job):  # of another state; made again when needed
                shards |= set() if sound else set(map(str, job.output)) - rebuilt.keys()
            elif states and sound:
                new.add(name)
            elif states:
                reasons.setdefault(name, set()).update(f"{path} {how}" for path, how in states.items())
                stale.append(job)
    for path in shards:
        Path(path).unlink(missing_ok=True)
    for folder in [*Path(run.results).glob("shards"), *Path(run.results).glob("models/*/shards")]:
        shutil.rmtree(folder)  # of any state; the jobs here are those of a run without shards
    due = {str(path) for job in stale for path in job.output}
    _touch(run, sorted({path for stage in stages.values() for path in stage.writes} - due))
    for job in stale:
        read.persistence.cleanup(job)  # the touch has recorded what is there as the job's own
        read.persistence.started(job)  # a job that has not finished runs again
    why = {name: ", ".join(sorted(lines)) for name, lines in sorted(reasons.items())}
    done = sorted({stage for path, stage in rebuilt.items() if not jobs.is_intermediate(path)})
    return done, sorted(new - why.keys()), why


def _concerning(job: Any, stage: Stage, states: dict[str, str]) -> dict[str, str]:
    """Return a stage's changes that concern a job: of code, config and its own files, but not missing inputs."""
    files, of_stage = {*map(str, job.input), *map(str, job.output)}, stage.reads | stage.writes
    there = {path: how for path, how in states.items() if how != DELETED or path not in stage.reads}
    beside = {path for path in there if any(f == path or f.startswith(f"{path}/") for f in files)}
    return {path: how for path, how in there.items() if path in beside or path not in of_stage}


def _touch(run: Run, paths: list[str]) -> None:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile()), "--configfile", run.file]
    command += ["--cores", "1", "--quiet", "all", "--touch", "--forceall", "--", *paths]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        hint = f"wait until the other Snakemake has finished; if none is running, run {run.program} --unlock"
        if "cannot be locked" in (message := done.stdout + done.stderr):
            raise UserError("snakemake: this folder is locked", hint)
        raise UserError(f"snakemake: {message.strip()}")


def _fetch(run: Run) -> None:
    """Fetch what the config names and is missing here; without a network, what needs it stays due."""
    for kind in ("text", "model", "pipeline"):
        named, source = run.inputs.fetched(kind), run.inputs.source(kind)
        if source is None or all(map(os.path.exists, named["files"])):
            continue
        try:
            fetch(named["name"], source)
        except UserError as error:
            print(f"not fetched: {error}", file=sys.stderr)


def _rebuild(run: Run, stages: dict[str, Stage]) -> dict[str, str]:
    """Rebuild missing or changed outputs, of those that DVC keeps no copy of; return {path: its stage}."""
    todo, _ = rebuild.tasks(run, _lost(run, stages))
    if not todo:
        return {}
    print(f"rebuilding: {', '.join(sorted({task.stage for task in todo}))}", file=sys.stderr, flush=True)
    recorded, rebuilt = dvc_lock_file.outputs(run), dict[str, str]()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as name:
        scratch = Path(name)
        rebuild.make(scratch, todo, run, machine.cores())
        for task in todo:
            if not all((scratch / path).exists() for path in task.makes):
                why = rebuild.reason(scratch, task)
                raise UserError(f"{task.stage} could not be rebuilt{why}", f"run {run.again()}")
            kept = [path for path in task.makes if dvc_yaml.is_kept(path) and path in recorded]
            if any(dvc_lock_file.content(scratch / path) != recorded[path][1] for path in kept):
                continue  # a job that no longer gives the copies that DVC keeps stays due
            for path in task.makes:
                if not dvc_yaml.is_kept(path):
                    shutil.rmtree(path) if os.path.isdir(path) else None
                    Path(path).parent.mkdir(parents=True, exist_ok=True)
                    (scratch / path).replace(path)
                    rebuilt[path] = task.stage
    return rebuilt


def _lost(run: Run, stages: dict[str, Stage]) -> Callable[[rebuild.Task], bool]:
    """Return what tells the jobs to rebuild: of their stage, only outputs without a copy have changed."""
    recorded, of_stages = dvc_lock_file.outputs(run), changes(run, stages)
    without_copy = {path for path in recorded if not dvc_yaml.is_kept(path)}

    def lost(task: rebuild.Task) -> bool:
        states = of_stages.get(task.stage, {})
        gone = without_copy.intersection(task.makes, states)
        otherwise_equal = all(how == DELETED or path in without_copy for path, how in states.items())
        # texts that runs share, such as the demo's, belong to no run's record
        shared = [path for path in task.makes if path not in recorded and not path.startswith(f"{run.results}/")]
        again = task.rule in ("models", "sample")  # seconds; else all models would be measured anew
        needed = [*shared, *(task.makes if again else [])]
        return bool(gone and otherwise_equal) or not all(map(os.path.exists, needed))

    return lost


def faults(run: Run) -> list[str]:
    """Return where a run's dvc.lock contradicts the Snakefile, itself, the config, or the sources and inputs here."""
    where, recorded, declared = run.dvc_lock, dvc_lock_file.read(run), dvc_yaml.stages(run)
    outputs, digests = dvc_lock_file.outputs(run), dvc_yaml.digests(declared.values())
    lines: list[str] = []
    try:
        dvc_yaml.check(run, declared)
    except UserError as error:
        lines.append(str(error).partition("\n")[0])
    if not run.sources_yaml.is_file() or run.sources_yaml.read_bytes() != dvc_yaml.sources(declared).encode():
        lines.append(f"{run.sources_yaml}: not what the code and the config mean; run ff-memories sources{run.option}")
    lines += [f"{where}: {name} was never recorded" for name in declared.keys() - recorded.keys()]
    lines += [f"{where}: {run.dvc_yaml} has no stage {name}" for name in recorded.keys() - declared.keys()]
    inputs: set[str] = set()  # that differ from those that were read
    for name in sorted(recorded.keys() & declared.keys()):
        entry, stage = recorded[name], declared[name]
        lines += [f"{where}: {name} was run {how}" for _, how in _otherwise(entry, run, stage, digests)]
        for kind, what, wanted in (("deps", "input", stage.reads), ("outs", "output", stage.writes)):
            if lacking := sorted(wanted - {file["path"] for file in entry.get(kind, [])}):
                lines.append(f"{where}: {name} lacks its {what} {lacking[0]}")
        for dep in entry.get("deps", []):
            path, md5 = dep["path"], dep["md5"]
            if (maker := outputs.get(path)) is not None:
                if maker[1] != md5:
                    lines.append(f"{where}: {name} read a different {path} than {maker[0]} wrote")
            elif path not in inputs and os.path.exists(path) and dvc_lock_file.content(path) != md5:
                inputs.add(path)
                lines.append(f"{path}: changed since the recorded run ({name})")
    return lines


def changes(run: Run, declared: dict[str, Stage]) -> dict[str, dict[str, str]]:
    """Return how stages differ from their record, by content: {stage: {file, key of the config, or "code": how}}."""
    recorded, digests, changed = dvc_lock_file.read(run), dvc_yaml.digests(declared.values()), dict[str, Any]()
    for name, stage in declared.items():
        entry = recorded.get(name, {})
        md5 = {file["path"]: file["md5"] for kind in ("deps", "outs") for file in entry.get(kind, [])}
        states = {key: MODIFIED for key, _ in _otherwise(entry, run, stage, digests)}
        for path in sorted(stage.reads | stage.writes):
            if not os.path.exists(path):
                states[path] = DELETED
            elif dvc_lock_file.content(path) != md5.get(path):
                states[path] = MODIFIED
        changed |= {name: states} if states else {}
    return changed


def _otherwise(entry: dict[str, Any], run: Run, stage: Stage, digests: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what a stage was run with that differs here, ``code`` or a key of the config, each with words for it."""
    if entry.get("cmd") != stage.cmd:
        yield "code", "with a different command"
    params = dict(entry.get("params", {}))
    if params.pop(str(run.sources_yaml), {}).get(stage.key) != digests[stage.key]:
        yield "code", "by other code, or with other values of the config"
    for file, keys in params.items():
        here = run.by_file(keys).get(file, {})  # another's record may name any file
        for key in (key for key, value in keys.items() if here.get(key) != value or file not in run.files):
            yield key, f"with a different {key} than in {file}"


def record(run: Run, at: Path) -> dict[str, Any]:
    """Return what dvc.lock records of a finished run, without DVC: {"stages": ...}.

    ``at``: the folder with its outputs, where the working folder, which has its inputs, lacks them.
    """
    declared, stages = dvc_yaml.stages(run), {}
    does = dvc_yaml.digests(declared.values())

    def listed(paths: set[str]) -> list[dict[str, str]]:
        files = {path: path if os.path.exists(path) else at / path for path in sorted(paths)}
        return [{"path": path, "md5": dvc_lock_file.content(file)} for path, file in files.items()]

    for name, stage in declared.items():
        params = deepcopy(run.by_file(stage.keys))  # YAML has no name for a value
        params[str(run.sources_yaml)] = {stage.key: does[stage.key]}
        stages[name] = {"cmd": stage.cmd, "deps": listed(stage.reads), "params": params, "outs": listed(stage.writes)}
    return {"stages": stages}


def machines_of(run: Run) -> Path:
    """Return the path of a small file with times, memory and machines of a run's jobs, which no record has."""
    return run.sources_yaml.with_name("machines.json")


def machines(run: Run) -> dict[str, dict[str, Any]]:
    """Return {rule: its jobs, seconds, largest peak in MiB, and machine in words}; empty if no file is here."""
    path = machines_of(run)
    return foreign.read_json(path, dict[str, dict[str, Any]], f"run git checkout {path}") if path.is_file() else {}


def keep_machines(run: Run) -> None:
    """Save what the logs here say; of rules without logs here, keep what is known."""
    rows, logs = machines(run), Path(run.path("logs"))
    by_rule = {name: log for log in sorted(logs.rglob("*.log")) for name in (log.stem, log.parent.name)}
    for cost in costs(logs):
        description = machine.of_log(by_rule[cost.rule]) if cost.rule in by_rule else ""
        row = {"jobs": cost.jobs, "seconds": round(cost.seconds, 1), "peak_mib": cost.peak_mib, "machine": description}
        rows[cost.rule] = row
    if rows:
        write_json(machines_of(run), dict(sorted(rows.items())))
