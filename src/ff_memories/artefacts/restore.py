"""After ``dvc pull`` or ``dvc checkout``: tell Snakemake, by content, what is up to date."""

import os
import shlex
import sys
import time
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

from ff_memories import stages
from ff_memories.artefacts import dvc, lock, records, tether
from ff_memories.artefacts.run import option
from ff_memories.errors import UserError


@dataclass
class Restored:
    """What ``restore`` found: stages made again, stages left for Snakemake with the reason, stages not yet adopted."""

    again: list[str] = field(default_factory=list)
    due: dict[str, str] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)


def restore(configfile: Path | None = None) -> Restored:
    """Write Snakemake's records of what is here as dvc.lock has it.

    What is never pushed, because it shows text or takes seconds, is made again first. A stage that is not as recorded
    is left for Snakemake to run; so is one whose output was here and is gone. What Snakemake made here since and
    knows to be up to date stays as it is, for ``adopt``.
    """
    stages.check(configfile)
    out = Restored(again=_make_again(configfile))
    reasons = _reasons(configfile)
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


def _make_again(configfile: Path | None) -> list[str]:
    """Run the stages whose unshared outputs are missing or of another state; return their names.

    One at a time, by their own commands: Snakemake runs whatever lies between two jobs that it is to run.
    """
    wanted = _unshared_to_make(configfile)
    maker = {path: name for name, stage in wanted.items() for path in _outs(stage)}
    after = {name: {maker[path] for path in stage["deps"] if path in maker} for name, stage in wanted.items()}
    for name in TopologicalSorter(after).static_order():
        print(f"making again: {name}", file=sys.stderr, flush=True)
        command = shlex.split(wanted[name]["cmd"], comments=True)
        command[0] = str(Path(sys.executable).with_name(command[0]))
        done = tether.run(command)
        if done.returncode:
            print(done.stdout + done.stderr, file=sys.stderr)
            raise UserError(f"{name} could not be made again", f"snakemake{option(configfile)}")
    return sorted(wanted)


def _outs(stage: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {path: flags for out in stage["outs"] for path, flags in out.items()}


def _unshared_to_make(configfile: Path | None) -> dict[str, dict[str, Any]]:
    """Return the stages to run again: nothing about them has changed but outputs that DVC keeps no copy of."""
    declared = yaml.safe_load(stages.path_of(configfile).read_text(encoding="utf-8"))["stages"]
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
