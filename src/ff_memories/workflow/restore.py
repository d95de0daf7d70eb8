"""After ``dvc pull`` or ``dvc checkout``: tell Snakemake, by content, what is up to date."""

import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.workflow import dvc, lock, rebuild, records, stages
from ff_memories.workflow.configfile import option

AGAIN = Path(".dvc/tmp/again")  # on the disk of the run, and no part of the checkout


@dataclass
class Restored:
    """What ``restore`` found: stages made again, stages left for Snakemake with the reason, stages not yet adopted."""

    again: list[str] = field(default_factory=list)
    due: dict[str, str] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)


def restore(configfile: Path | None = None) -> Restored:
    """Write Snakemake's records of what is here as dvc.lock has it.

    What is never shared, because it shows text or takes seconds, is made again first, in a folder of its own. Nothing
    that is recorded is written. A stage that is not as recorded is left for Snakemake to run; so is one whose output
    was here and is gone. What Snakemake made here since and knows to be up to date stays as it is, for ``adopt``.
    """
    stages.check(configfile)
    again, other = _make_again(configfile)
    out = Restored(again=again)
    reasons = _reasons(configfile) | other
    now = time.time()
    with stages.workflow(configfile, forceall=True) as found:
        from snakemake.settings.types import ExecutionSettings

        if found.persistence.locked:
            raise UserError("Snakemake is at work here", "wait for it; if it was killed: snakemake --unlock")
        found.execution_settings = ExecutionSettings()
        for job in [job for job in found.dag.jobs if job.output]:
            stage, present = stages.stage_of(job), any(map(os.path.lexists, job.output))
            if records.sound(found, job):
                out.new += [stage] if stage in reasons else []
            elif stages.is_shard(job):  # of another state, and made again when they are needed
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


def _remove(paths: list[str]) -> None:
    for path in paths:
        Path(path).unlink(missing_ok=True)


def _reasons(configfile: Path | None) -> dict[str, str]:
    """Return {stage: why it is not as dvc.lock has it}."""
    recorded, changed = lock.outputs(configfile), dvc.changes(configfile)
    old = dvc.out_of_date(configfile, changed)
    found = {stage: "changed: " + ", ".join(sorted(states)) for stage, states in old.items()}
    for stage, states in changed.items():
        gone = [path for path, state in states.items() if state == "deleted" and recorded.get(path, [None])[0] == stage]
        if gone:
            found[stage] = "gone: " + ", ".join(sorted(gone))
    for path, stage in lock.differing(configfile).items():
        found[stage] = f"{path} is not what {lock.path_of(configfile)} records"
    return found


def _make_again(configfile: Path | None) -> tuple[list[str], dict[str, str]]:
    """Make unshared outputs that are missing or of another state.

    Returns:
        The stages whose outputs were put in their place, and {stage: why not} of the others: what such a stage shares
        came out otherwise than recorded.
    """
    wanted = _unshared_to_make(configfile)
    todo = [task for task in rebuild.tasks(configfile, sharded=True)[0] if task.stage in wanted] if wanted else []
    if not todo:
        return [], {}
    print(f"making again: {', '.join(sorted(wanted))}", file=sys.stderr, flush=True)
    shutil.rmtree(AGAIN, ignore_errors=True)
    AGAIN.mkdir(parents=True)
    try:
        rebuild.run(AGAIN, todo, configfile, os.cpu_count() or 1)
        if failed := next((task for task in todo if not all((AGAIN / path).exists() for path in task.makes)), None):
            reason = rebuild.reason(AGAIN, failed)
            raise UserError(f"{failed.stage} could not be made again{reason}", f"snakemake{option(configfile)}")
        other = _otherwise(todo, configfile)
        for task in todo:
            for path in task.makes if task.stage not in other else ():
                if not stages.SHARED.search(path):
                    _put(AGAIN / path, Path(path))
    finally:
        shutil.rmtree(AGAIN, ignore_errors=True)
    return sorted(wanted.keys() - other.keys()), other


def _otherwise(todo: list[rebuild.Task], configfile: Path | None) -> dict[str, str]:
    """Return {stage: why} of those that made another file than the recorded one, of those that are shared."""
    recorded, where = lock.outputs(configfile), lock.path_of(configfile)
    shared = [(task, path) for task in todo for path in task.makes if stages.SHARED.search(path) and path in recorded]
    return {
        task.stage: f"{path} comes out otherwise here than {where} records"
        for task, path in shared
        if lock.content(AGAIN / path) != recorded[path][1]
    }


def _put(made: Path, path: Path) -> None:
    """Put a file or folder in the place of what stands there."""
    if path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    made.replace(path)


def _outs(stage: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {path: flags for out in stage["outs"] for path, flags in out.items()}


def _unshared_to_make(configfile: Path | None) -> dict[str, dict[str, Any]]:
    """Return the stages to run again: nothing about them has changed but outputs that DVC keeps no copy of."""
    declared = lock.declared(configfile)
    unshared = {p for stage in declared.values() for p, flags in _outs(stage).items() if not flags.get("cache", True)}
    recorded, differing = lock.outputs(configfile), lock.differing(configfile)
    wrong = {path for path in unshared & recorded.keys() if path in differing or not os.path.exists(path)}
    changed = dvc.out_of_date(configfile)
    wanted = {
        name: stage
        for name, stage in declared.items()
        if wrong & _outs(stage).keys() and changed.get(name, {}).keys() <= unshared
    }
    while True:  # less what lacks an input that nothing here makes
        made = {path for stage in wanted.values() for path in _outs(stage)}
        able = {n: s for n, s in wanted.items() if all(p in made or os.path.exists(p) for p in s["deps"])}
        if able.keys() == wanted.keys():
            return wanted
        wanted = able
