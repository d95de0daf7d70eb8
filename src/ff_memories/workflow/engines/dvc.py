"""Call the DVC of this environment through its command line.

``at_work`` reads DVC's ``rwlock``, which is not public; ``engines`` names all else that is not.
"""

import json
import sys
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.workflow.engines import lock, processes
from ff_memories.workflow.engines.at_work import mend_record_of_dvc
from ff_memories.workflow.runs.run import SOURCES, Run

LOOKED_AT = Path("runs/.dvcignore")  # not in git: the runs that DVC looks at in this checkout, besides the default one
IGNORED = Path(".dvcignore")
NO_PROJECT = "not inside of a DVC repository"  # as DVC says it
ABSENT = {"deleted", "not in cache"}  # missing files, which are not out of date
Changes = dict[str, dict[str, str]]  # {stage: {path or parameter: how it differs from dvc.lock, by content}}


def call(*arguments: str) -> str:
    """Run a DVC command and return its output. Raises ``UserError`` with DVC's message if it fails."""
    mend_record_of_dvc()
    dvc = Path(sys.executable).with_name("dvc")
    done = processes.run([dvc, *arguments])
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        if "Traceback" in said:
            said = said.splitlines()[-1]
        hint = "run dvc init, or dvc init --no-scm where there is no git" if NO_PROJECT in said else None
        raise UserError(f"dvc {arguments[0]}: {said}", hint)
    return done.stdout


def begin() -> None:
    """Make the working folder a DVC project, unless it is one."""
    if not Path(".dvc").is_dir():
        call("init", "--quiet", *([] if Path(".git").exists() else ["--no-scm"]))
        call("config", "core.analytics", "false")
        write_whole(IGNORED, "\n".join(["/.snakemake", ".snakemake_timestamp"]) + "\n")


def look_at(run: Run) -> None:
    """Make DVC look at a run from now on, which ``.dvcignore`` hides until somebody works on it in this checkout."""
    known = LOOKED_AT.read_text(encoding="utf-8").splitlines() if LOOKED_AT.is_file() else []
    if not run.is_default and (line := f"!/{run.config.run}/") not in known:
        write_whole(LOOKED_AT, "\n".join([*known, line]) + "\n")


def changes(run: Run) -> Changes:
    """Return how a run's stages differ from dvc.lock."""
    look_at(run)
    shown = json.loads(call("status", "--json", str(run.dvc_yaml)) or "{}")
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
        for path, state in states.items():  # a params file maps its keys to states
            whole = not isinstance(state, dict) or Path(path).name == SOURCES
            out |= {path: "modified" if isinstance(state, dict) else state} if whole else state
    return out


def out_of_date(run: Run, changed: Changes | None = None) -> Changes:
    """Return ``changes`` without those that are only missing files. ``changed``: the changes, if already known.

    For an output whose recorded content is not in the cache, DVC reports only "not in cache", so this function compares
    its bytes.
    """
    present = lambda states: {path: state for path, state in states.items() if state not in ABSENT}
    changed = changes(run) if changed is None else changed
    found = {stage: present(states) for stage, states in changed.items() if present(states)}
    if run.dvc_lock.is_file():
        for path, stage in lock.differing(run).items():
            found.setdefault(stage, {})[path] = "modified"
    return found


def not_cached(changed: Changes) -> set[str]:
    """Return the stages with an output that matches the record but is not in DVC's cache."""
    return {stage for stage, states in changed.items() if "not in cache" in states.values()}


def commit(names: list[str], run: Run) -> None:
    """Record the stages' current inputs and outputs in dvc.lock, and put the outputs into the cache.

    DVC rewrites dvc.lock once per stage that it is given, but only once for a whole dvc.yaml. Stages that are up to
    date do not change, so if no output is missing, DVC gets the whole dvc.yaml.
    """
    outs = [path for stage in lock.declared(run).values() for out in stage["outs"] for path in out]
    complete = all(Path(path).exists() for path in outs)
    told = [str(run.dvc_yaml)] if complete else addresses(names, run)
    call("commit", "--force", "--quiet", *told)


def addresses(names: list[str], run: Run) -> list[str]:
    """Return stages in the form that DVC's commands take, and make DVC look at the run."""
    look_at(run)
    return [f"{run.dvc_yaml}:{name}" for name in names]
