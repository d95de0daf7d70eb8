"""DVC, by its command line, from the environment that runs this.

Its record of who works here and the lock over it (``at_work``) are not public, so DVC is pinned.
"""

import json
import sys
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.workflow import lock, processes, stages
from ff_memories.workflow.at_work import mend_record_of_dvc

ABSENT = {"deleted", "not in cache"}  # not here, which says nothing of being out of date
Changes = dict[str, dict[str, str]]  # {stage: {path or parameter: how it differs from dvc.lock, by content}}


def call(*arguments: str) -> str:
    """Run a DVC command and return what it printed. Raises ``UserError`` with DVC's own words where it fails."""
    mend_record_of_dvc()
    dvc = Path(sys.executable).with_name("dvc")
    done = processes.run([dvc, *arguments])
    if done.returncode:
        raise UserError(f"dvc {arguments[0]}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def changes(configfile: Path | None = None) -> Changes:
    """Return how a run's stages differ from dvc.lock."""
    shown = json.loads(call("status", "--json", str(stages.path_of(configfile))) or "{}")
    found: Changes = {}
    for address, parts in shown.items():
        for part in parts:
            found.setdefault(address.rpartition(":")[2], {}).update(_states(part))
    return found


def _states(part: Any) -> dict[str, str]:
    """Flatten one part of a stage's status: its changed dependencies, parameters, outputs or command."""
    if isinstance(part, str):
        return {part: "modified"}
    out: dict[str, str] = {}
    for states in part.values():
        for path, state in states.items():
            out |= state if isinstance(state, dict) else {path: state}  # a params file maps its keys to states
    return out


def out_of_date(configfile: Path | None = None, changed: Changes | None = None) -> Changes:
    """Return those of ``changes`` that are more than a file's not being here; ``changed``: if they are known already.

    DVC says no more than "not in cache" of an output whose recorded content is not there: its bytes are compared here.
    """
    present = lambda states: {path: state for path, state in states.items() if state not in ABSENT}
    changed = changes(configfile) if changed is None else changed
    found = {stage: present(states) for stage, states in changed.items() if present(states)}
    if lock.path_of(configfile).is_file():
        for path, stage in lock.differing(configfile).items():
            found.setdefault(stage, {})[path] = "modified"
    return found


def not_cached(changed: Changes) -> set[str]:
    """Return the stages with an output that is here as recorded, and not in DVC's cache."""
    return {stage for stage, states in changed.items() if "not in cache" in states.values()}


def commit(names: list[str], configfile: Path | None = None) -> None:
    """Record the stages' present inputs and outputs in dvc.lock, and the outputs in the cache.

    DVC reads and writes dvc.lock once for each stage that it is told, and once for a whole dvc.yaml. Stages that are up
    to date stay as they are, so the whole is told where nothing of it is missing.
    """
    outs = [path for stage in lock.declared(configfile).values() for out in stage["outs"] for path in out]
    complete = all(Path(path).exists() for path in outs)
    told = [str(stages.path_of(configfile))] if complete else addresses(names, configfile)
    call("commit", "--force", "--quiet", *told)


def addresses(names: list[str], configfile: Path | None = None) -> list[str]:
    """Return stages as DVC's commands name them."""
    return [f"{stages.path_of(configfile)}:{name}" for name in names]
