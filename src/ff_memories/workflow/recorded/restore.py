"""After ``dvc pull`` or ``dvc checkout``: tell Snakemake which files are up to date, by content."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.inputs.fetch import fetch
from ff_memories.workflow.engines import dvc, lock, records, stages
from ff_memories.workflow.recorded import rebuild
from ff_memories.workflow.runs.run import Run

AGAIN = Path(".dvc/tmp/again")  # a scratch folder on the run's disk, outside the checkout


@dataclass
class Restored:
    """The result of ``restore``: rebuilt stages, stages to rerun with the reason, stages not yet adopted."""

    again: list[str] = field(default_factory=list)
    due: dict[str, str] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)


def restore(run: Run) -> Restored:
    """Write Snakemake's records for the files that match dvc.lock.

    First fetch the text and the model that the config names, if they are missing here. Then rebuild, in a scratch
    folder, the files that DVC keeps no copy of, because they show text or take seconds;
    copies that it keeps are never overwritten. Snakemake will rerun a stage that differs from the record, or whose
    output is missing. Outputs that Snakemake has computed here since, and that are up to date, stay as they are, for
    ``adopt``.
    """
    stages.check(run)
    stages.write_sources(run)
    _fetch(run)
    again, other = _make_again(run)
    out = Restored(again=again)
    reasons = _reasons(run) | other
    now = time.time()
    with stages.workflow(run, forceall=True) as found:
        from snakemake.settings.types import ExecutionSettings

        if found.persistence.locked:
            raise UserError(
                "Snakemake is running here",
                "wait until it has finished; if it was killed, run the same run again first",
            )
        found.execution_settings = ExecutionSettings()
        for job in [job for job in found.dag.jobs if job.output]:
            stage, present = stages.stage_of(job), any(map(os.path.lexists, job.output))
            if records.sound(found, job):
                out.new += [stage] if stage in reasons else []
            elif stages.is_shard(job):  # from another state; rebuilt when needed
                _remove(job.output)
                records.forget(found, job)
            elif stage in reasons:
                out.due[stage] = reasons[stage]
                records.write(found, job, now, due=True)
            elif present:
                records.write(found, job, now, due=False)
            else:
                records.forget(found, job)
    out.new = sorted(set(out.new) - out.due.keys())
    return out


def _fetch(run: Run) -> None:
    """Fetch what the config names and is missing here; without a network, what needs it stays due."""
    for kind in ("text", "model", "pipeline"):
        named, source = run.fetched(kind), run.source(kind)
        if source is None or all(map(os.path.exists, named["files"])):
            continue
        try:
            fetch(named["name"], source)
        except UserError as error:
            print(f"not fetched: {error}", file=sys.stderr)


def _remove(paths: list[str]) -> None:
    for path in paths:
        Path(path).unlink(missing_ok=True)


def _reasons(run: Run) -> dict[str, str]:
    """Return {stage: why it differs from dvc.lock}."""
    recorded, changed = lock.outputs(run), dvc.changes(run)
    old = dvc.out_of_date(run, changed)
    found = {stage: "changed: " + ", ".join(sorted(states)) for stage, states in old.items()}
    for stage, states in changed.items():
        gone = [path for path, state in states.items() if state == "deleted" and recorded.get(path, [None])[0] == stage]
        if gone:
            found[stage] = "missing: " + ", ".join(sorted(gone))
    for path, stage in lock.differing(run).items():
        found[stage] = f"{path} differs from {run.dvc_lock}"
    return found


def _make_again(run: Run) -> tuple[list[str], dict[str, str]]:
    """Rebuild outputs that are missing or outdated, of those that DVC keeps no copy of.

    Returns:
        The stages whose outputs were put in place, and {stage: why not} for those whose kept outputs came out
        different from the record.
    """
    todo, _ = rebuild.tasks(run, sharded=True, wanted=_lost(run))
    if not todo:
        return [], {}
    names = {task.stage for task in todo}
    print(f"rebuilding: {', '.join(sorted(names))}", file=sys.stderr, flush=True)
    shutil.rmtree(AGAIN, ignore_errors=True)
    AGAIN.mkdir(parents=True)
    try:
        rebuild.make(AGAIN, todo, run, os.cpu_count() or 1)
        if failed := next((task for task in todo if not all((AGAIN / path).exists() for path in task.makes)), None):
            reason = rebuild.reason(AGAIN, failed)
            raise UserError(f"{failed.stage} could not be rebuilt{reason}", f"run {run.again()}")
        differing = _differing(todo, run)
        for task in todo:
            for path in task.makes if task.stage not in differing else ():
                if not stages.is_kept(path):
                    _put(AGAIN / path, Path(path))
    finally:
        shutil.rmtree(AGAIN, ignore_errors=True)
    return sorted(names - differing.keys()), differing


def _lost(run: Run) -> Callable[[rebuild.Task], bool]:
    """Return what tells the jobs to rebuild: of their stage, only outputs without a copy have changed.

    Texts that runs share, such as the demo's, belong to no run's record; they are rebuilt if they are missing.
    """
    recorded, differing, changed = lock.outputs(run), lock.differing(run), dvc.out_of_date(run)
    remade = {path for path in recorded if not stages.is_kept(path)}
    lost = {recorded[path][0] for path in remade if path in differing or not os.path.exists(path)}
    lost = {stage for stage in lost if changed.get(stage, {}).keys() <= remade}
    gone = lambda path: not path.startswith(f"{run.results}/") and path not in recorded and not os.path.exists(path)
    return lambda task: task.stage in lost or any(map(gone, task.makes))


def _differing(todo: list[rebuild.Task], run: Run) -> dict[str, str]:
    """Return {stage: why} for stages whose rebuilt outputs differ from the copies that DVC keeps."""
    recorded = lock.outputs(run)
    kept = [(task, path) for task in todo for path in task.makes if stages.is_kept(path) and path in recorded]
    return {
        task.stage: f"{path}, rebuilt here, differs from {run.dvc_lock}"
        for task, path in kept
        if lock.content(AGAIN / path) != recorded[path][1]
    }


def _put(made: Path, path: Path) -> None:
    """Move a file or folder to a path, replacing what is there."""
    if path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    made.replace(path)
