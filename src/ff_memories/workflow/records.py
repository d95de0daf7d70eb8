"""A run's record in dvc.lock: ``adopt`` writes it after ``snakemake``, ``restore`` heeds it after ``dvc pull``."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.inputs.fetch import fetch
from ff_memories.workflow import dvc, dvc_lock_file, dvc_yaml, jobs, rebuild, record_check, snakemake_metadata
from ff_memories.workflow.dvc_yaml import Stage
from ff_memories.workflow.run import Run
from ff_memories.workflow.snakefile import snakefile

SCRATCH = Path(".dvc/tmp")  # on the run's disk, outside the checkout


def adopt(run: Run) -> list[str]:
    """Record Snakemake's outputs in dvc.lock and DVC's cache; return the stages whose record changed.

    Raises ``UserError`` if dvc.yaml does not match the Snakefile, if Snakemake has jobs left to run, or if a file is
    not as a job left it; ``dvc commit`` alone would record any file.
    """
    stages = dvc_yaml.check(run)
    dvc_yaml.write_sources(run, stages)
    before = dvc_lock_file.read(run) if run.dvc_lock.is_file() else {}
    recorded = {path: md5 for path, (_, md5) in dvc_lock_file.outputs(run).items()} if before else {}
    outputs = {path for stage in stages.values() for path in stage.writes}
    with jobs.workflow(run) as read:
        if due := sorted({job.rule.name for job in read.dag.needrun_jobs() if job.output}):
            raise UserError(f"not adopted, because Snakemake still has to run {', '.join(due)}", f"run {run.again()}")
        if missing := jobs.missing_outputs(read, run):
            raise UserError(f"not adopted, because {missing[0]} is missing", f"run {run.again(*missing)}")
        every = [out for job in read.dag.jobs for out in job.output if str(out) in outputs]
        new = [out for out in every if recorded.get(str(out)) != dvc_lock_file.content(str(out))]
        faults = [line for out in new for line in snakemake_metadata.faults(str(out), read.persistence.metadata(out))]
    if faults:
        hint = f"undo the edits with dvc checkout, then run ff-memories restore{run.option} and {run.again()}"
        raise UserError("not adopted:\n  " + "\n  ".join(dict.fromkeys(faults)), hint)
    dvc.look_at(run)
    dvc.call("commit", "--force", "--quiet", str(run.dvc_yaml), str(dvc_yaml.stage_of_sources(run)))
    after = dvc_lock_file.read(run)
    if others := [re.escape(name) for name in after.keys() - stages.keys()]:  # DVC keeps them
        stage = re.compile(rf"^  ({'|'.join(others)}):\n(    .*\n)*", re.MULTILINE)
        write_whole(run.dvc_lock, stage.sub("", run.dvc_lock.read_text(encoding="utf-8")))
    return sorted(name for name in stages if before.get(name) != after[name])


def restore(run: Run) -> tuple[list[str], list[str], dict[str, str]]:
    """Make Snakemake take the files that match dvc.lock for up to date, and only them.

    First fetch the text and the model that the config names, if they are missing here. Then rebuild, in a scratch
    folder, the files that DVC keeps no copy of; copies that it keeps are never overwritten. Outputs that Snakemake has
    computed here since, and that are up to date, stay as they are, for ``adopt``.

    Returns:
        The stages that were rebuilt, those not yet adopted, and {stage to rerun: the reason}.
    """
    stages = dvc_yaml.check(run)
    dvc_yaml.write_sources(run, stages)
    dvc.look_at(run)
    _fetch(run)
    rebuilt = _rebuild(run, stages)
    changes, reasons = record_check.changes(run, stages), dict[str, set[str]]()
    due, new, shards = set[str](), set[str](), set[str]()
    with jobs.workflow(run, forceall=True) as read:
        for job in [job for job in read.dag.jobs if job.output]:
            name = dvc_yaml.stage_of(job)
            states = _concerning(job, stages[name], changes.get(name, {})) if name in stages else {}
            sound = snakemake_metadata.is_sound(read, job)
            if jobs.makes_intermediates(job):  # of another state; made again when needed
                shards |= set() if sound else set(map(str, job.output))
            elif states and sound:
                new.add(name)
            elif states:
                reasons.setdefault(name, set()).update(f"{path} {how}" for path, how in states.items())
                due |= set(map(str, job.output))
    for path in shards:
        Path(path).unlink(missing_ok=True)
    for folder in [*Path(run.results).glob("shards"), *Path(run.results).glob("models/*/shards")]:
        shutil.rmtree(folder)  # of any state; the jobs here are those of a run without shards
    up_to_date = sorted(path for stage in stages.values() for path in stage.writes if path not in due)
    _snakemake(run, "--touch", "--forceall", "--", *up_to_date)
    if present := sorted(filter(os.path.lexists, due)):
        _snakemake(run, "--cleanup-metadata", *present)
    for path in present:  # older than what it is made of
        os.utime(snakemake_metadata.stamp_of(path), (1, 1), follow_symlinks=False)
    why = {name: ", ".join(sorted(lines)) for name, lines in sorted(reasons.items())}
    return rebuilt, sorted(new - why.keys()), why


def _concerning(job: Any, stage: Stage, states: dict[str, str]) -> dict[str, str]:
    """Return the changes of a stage that concern a job: of its own files, and of code and config, which concern all.

    A missing file that the stage reads makes nothing out of date.
    """
    files, of_stage = {*map(str, job.input), *map(str, job.output)}, stage.reads | stage.writes
    touches = lambda path: path not in of_stage or any(f == path or f.startswith(f"{path}/") for f in files)
    missing = lambda path, how: how == record_check.DELETED and path in stage.reads
    return {path: how for path, how in states.items() if touches(path) and not missing(path, how)}


def _snakemake(run: Run, *arguments: str) -> None:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile()), "--configfile", run.file]
    done = subprocess.run([*command, "--cores", "1", "--quiet", "all", *arguments], capture_output=True, text=True)
    if done.returncode and "--cleanup-metadata" not in arguments:  # which fails where there is none
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line and not line.startswith("Using ")]
        hint = f"wait until the other Snakemake has finished; if none is running, run {run.program} --unlock"
        if any("cannot be locked" in line for line in lines):
            raise UserError("snakemake: this folder is locked", hint)
        raise UserError("snakemake: " + "\n".join(lines))


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


def _rebuild(run: Run, stages: dict[str, Stage]) -> list[str]:
    """Rebuild outputs that are missing or changed, of those that DVC keeps no copy of; return their stages.

    A job that no more gives the copies that DVC keeps stays due, as its other outputs are not put in place.
    """
    todo, _ = rebuild.tasks(run, _lost(run, stages))
    if not todo:
        return []
    print(f"rebuilding: {', '.join(sorted({task.stage for task in todo}))}", file=sys.stderr, flush=True)
    recorded, done = dvc_lock_file.outputs(run), set[str]()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as name:
        scratch = Path(name)
        rebuild.make(scratch, todo, run, os.cpu_count() or 1)
        for task in todo:
            if not all((scratch / path).exists() for path in task.makes):
                why = rebuild.reason(scratch, task)
                raise UserError(f"{task.stage} could not be rebuilt{why}", f"run {run.again()}")
            kept = [path for path in task.makes if dvc_yaml.is_kept(path) and path in recorded]
            if any(dvc_lock_file.content(scratch / path) != recorded[path][1] for path in kept):
                continue
            for path in task.makes:
                if not dvc_yaml.is_kept(path):
                    shutil.rmtree(path) if os.path.isdir(path) else None
                    Path(path).parent.mkdir(parents=True, exist_ok=True)
                    (scratch / path).replace(path)
                    done |= set() if jobs.is_intermediate(path) else {task.stage}
    return sorted(done)


def _lost(run: Run, stages: dict[str, Stage]) -> Callable[[rebuild.Task], bool]:
    """Return what tells the jobs to rebuild: of their stage, only outputs without a copy have changed.

    Texts that runs share, such as the demo's, belong to no run's record; they are rebuilt if they are missing.
    """
    recorded, changes = dvc_lock_file.outputs(run), record_check.changes(run, stages)
    without_copy = {path for path in recorded if not dvc_yaml.is_kept(path)}
    changed = lambda states: {path for path, how in states.items() if how != record_check.DELETED}
    otherwise_equal = {stage for stage, states in changes.items() if changed(states) <= without_copy}

    def lost(task: rebuild.Task) -> bool:
        outputs = without_copy & set(task.makes)
        gone = {path for path in outputs if not os.path.exists(path) or path in changes.get(task.stage, {})}
        shared = [path for path in task.makes if path not in recorded and not path.startswith(f"{run.results}/")]
        models = task.makes if task.rule == "models" else []  # seconds; else all models would be measured anew
        return bool(gone and task.stage in otherwise_equal) or not all(map(os.path.exists, [*shared, *models]))

    return lost
