"""After ``dvc pull`` or ``dvc checkout``: tell Snakemake which files are up to date, by content."""

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

AGAIN = Path(".dvc/tmp/again")  # a scratch folder on the run's disk, outside the checkout


@dataclass
class Restored:
    """The result of ``restore``: rebuilt stages, stages to rerun with the reason, stages not yet adopted."""

    again: list[str] = field(default_factory=list)
    due: dict[str, str] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)


def restore(configfile: Path | None = None) -> Restored:
    """Write Snakemake's records for the files that match dvc.lock.

    First rebuild, in a scratch folder, the files that DVC keeps no copy of, because they show text or take seconds;
    copies that it keeps are never overwritten. Snakemake will rerun a stage that differs from the record, or whose
    output is missing. Outputs that Snakemake has computed here since, and that are up to date, stay as they are, for
    ``adopt``.
    """
    stages.check(configfile)
    stages.write_sources(configfile)
    again, other = _make_again(configfile)
    out = Restored(again=again)
    reasons = _reasons(configfile) | other
    now = time.time()
    with stages.workflow(configfile, forceall=True) as found:
        from snakemake.settings.types import ExecutionSettings

        if found.persistence.locked:
            raise UserError(
                "Snakemake is running here", "wait until it has finished; if it was killed, run snakemake --unlock"
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


def _remove(paths: list[str]) -> None:
    for path in paths:
        Path(path).unlink(missing_ok=True)


def _reasons(configfile: Path | None) -> dict[str, str]:
    """Return {stage: why it differs from dvc.lock}."""
    recorded, changed = lock.outputs(configfile), dvc.changes(configfile)
    old = dvc.out_of_date(configfile, changed)
    found = {stage: "changed: " + ", ".join(sorted(states)) for stage, states in old.items()}
    for stage, states in changed.items():
        gone = [path for path, state in states.items() if state == "deleted" and recorded.get(path, [None])[0] == stage]
        if gone:
            found[stage] = "missing: " + ", ".join(sorted(gone))
    for path, stage in lock.differing(configfile).items():
        found[stage] = f"{path} differs from {lock.path_of(configfile)}"
    return found


def _make_again(configfile: Path | None) -> tuple[list[str], dict[str, str]]:
    """Rebuild outputs that are missing or outdated, of those that DVC keeps no copy of.

    Returns:
        The stages whose outputs were put in place, and {stage: why not} for those whose kept outputs came out
        different from the record.
    """
    wanted = _to_make(configfile)
    todo = [task for task in rebuild.tasks(configfile, sharded=True)[0] if task.stage in wanted] if wanted else []
    if not todo:
        return [], {}
    print(f"rebuilding: {', '.join(sorted(wanted))}", file=sys.stderr, flush=True)
    shutil.rmtree(AGAIN, ignore_errors=True)
    AGAIN.mkdir(parents=True)
    try:
        rebuild.run(AGAIN, todo, configfile, os.cpu_count() or 1)
        if failed := next((task for task in todo if not all((AGAIN / path).exists() for path in task.makes)), None):
            reason = rebuild.reason(AGAIN, failed)
            raise UserError(f"{failed.stage} could not be rebuilt{reason}", f"run snakemake{option(configfile)}")
        other = _otherwise(todo, configfile)
        for task in todo:
            for path in task.makes if task.stage not in other else ():
                if not stages.is_kept(path):
                    _put(AGAIN / path, Path(path))
    finally:
        shutil.rmtree(AGAIN, ignore_errors=True)
    return sorted(wanted.keys() - other.keys()), other


def _otherwise(todo: list[rebuild.Task], configfile: Path | None) -> dict[str, str]:
    """Return {stage: why} for stages whose rebuilt outputs differ from the copies that DVC keeps."""
    recorded, where = lock.outputs(configfile), lock.path_of(configfile)
    kept = [(task, path) for task in todo for path in task.makes if stages.is_kept(path) and path in recorded]
    return {
        task.stage: f"{path}, rebuilt here, differs from {where}"
        for task, path in kept
        if lock.content(AGAIN / path) != recorded[path][1]
    }


def _put(made: Path, path: Path) -> None:
    """Move a file or folder to a path, replacing what is there."""
    if path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    made.replace(path)


def _outs(stage: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {path: flags for out in stage["outs"] for path, flags in out.items()}


def _deps(stage: dict[str, Any]) -> list[str]:
    """Return the files that a stage reads; the text of docstrings is made from none."""
    return list(stage.get("deps", []))


def _texts(configfile: Path | None) -> dict[str, dict[str, Any]]:
    """Return the default run's stages that make another run's inputs, such as the text that the demo runs share."""
    if configfile is None or not lock.path_of().is_file():
        return {}
    read = {path for stage in lock.declared(configfile).values() for path in _deps(stage)}
    return {name: stage for name, stage in lock.declared().items() if read & _outs(stage).keys()}


def _to_make(configfile: Path | None) -> dict[str, dict[str, Any]]:
    """Return the stages to rebuild: only outputs that DVC keeps no copy of have changed."""
    texts = _texts(configfile)
    declared = texts | lock.declared(configfile)
    remade = {p for stage in declared.values() for p, flags in _outs(stage).items() if not flags.get("cache", True)}
    recorded = {path: name for name, stage in texts.items() for path in _outs(stage)} | lock.outputs(configfile)
    differing = lock.differing(configfile)
    wrong = {path for path in remade & recorded.keys() if path in differing or not os.path.exists(path)}
    changed = dvc.out_of_date(configfile)
    wanted = {
        name: stage
        for name, stage in declared.items()
        if wrong & _outs(stage).keys() and changed.get(name, {}).keys() <= remade
    }
    while True:  # drop stages with a missing input that no other stage here makes
        made = {path for stage in wanted.values() for path in _outs(stage)}
        able = {n: s for n, s in wanted.items() if all(p in made or os.path.exists(p) for p in _deps(s))}
        if able.keys() == wanted.keys():
            return wanted
        wanted = able
