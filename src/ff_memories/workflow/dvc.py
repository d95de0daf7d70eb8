"""Call the DVC of this environment through its command line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.runs.run import SOURCES, Run

LOOKED_AT = Path("runs/.dvcignore")  # not in git: the runs that DVC looks at in this checkout, besides the default one
IGNORED = Path(".dvcignore")
HINTS = {  # what DVC says -> the command that mends it
    "not inside of a DVC repository": "run dvc init, or dvc init --no-scm where there is no git",
    "rwlock": "if no DVC is running here, run rm .dvc/tmp/rwlock",
    "Unable to acquire lock": "wait until the other DVC has finished",
}
ABSENT = {"deleted", "not in cache"}  # missing files, which are not out of date
Changes = dict[str, dict[str, str]]  # {stage: {path or parameter: how it differs from dvc.lock, by content}}


def call(*arguments: str) -> str:
    """Run a DVC command and return its output. Raises ``UserError`` with DVC's message if it fails."""
    command: list[str | Path] = [Path(sys.executable).with_name("dvc"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        if "Traceback" in said:
            said = said.splitlines()[-1]
        raise UserError(f"dvc {arguments[0]}: {said}", next((HINTS[known] for known in HINTS if known in said), None))
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
    """Return how a run's stages differ from dvc.lock; of files that are not here, in ``ABSENT``'s words.

    For an output whose recorded content is not in the cache, DVC reports only "not in cache", so this function compares
    its bytes.
    """
    look_at(run)
    found: Changes = {}
    for address, parts in json.loads(call("status", "--json", str(run.dvc_yaml)) or "{}").items():
        for part in parts:
            found.setdefault(address.rpartition(":")[2], {}).update(_states(part))
    for path, stage in dvc_lock_file.differing(run).items():
        found.setdefault(stage, {})[path] = "modified"
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
