"""Call the DVC of this environment through its command line."""

import subprocess
import sys
from pathlib import Path

from ff_memories.base.errors import UserError, with_extra
from ff_memories.base.files import write_whole
from ff_memories.workflow.run import Run

LOOKED_AT = Path("runs/.dvcignore")  # not in git: the runs that DVC looks at in this checkout, besides the default one
IGNORED = Path(".dvcignore")
HINTS = {  # what DVC says -> the command that mends it
    "not inside of a DVC repository": "run dvc init, or dvc init --no-scm where there is no git",
    "rwlock": "if no DVC is running here, run rm .dvc/tmp/rwlock",
    "Unable to acquire lock": "wait until the other DVC has finished",
    **{f"requires 'dvc-{extra}'": with_extra(extra) for extra in ("s3", "ssh")},
}


def call(*arguments: str) -> str:
    """Run a DVC command and return its output. Raises ``UserError`` with DVC's message if it fails."""
    command: list[str | Path] = [Path(sys.executable).with_name("dvc"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        message = (done.stderr or done.stdout).partition("Having any troubles?")[0].strip()
        if "Traceback" in message:
            message = message.splitlines()[-1]
        hint = next((HINTS[text] for text in HINTS if text in message), None)
        raise UserError(f"dvc {arguments[0]}: {message}", hint)
    return done.stdout


def begin() -> None:
    """Make the working folder a DVC project, unless it is one."""
    if not Path(".dvc").is_dir():
        call("init", "--quiet", *([] if Path(".git").exists() else ["--no-scm"]))
        call("config", "core.analytics", "false")
        write_whole(IGNORED, "\n".join(["/.snakemake", ".snakemake_timestamp"]) + "\n")


def look_at(run: Run) -> None:
    """Make DVC look at a run from now on, which ``.dvcignore`` hides until somebody works on it in this checkout."""
    lines = LOOKED_AT.read_text(encoding="utf-8").splitlines() if LOOKED_AT.is_file() else []
    if not run.is_default and (line := f"!/{run.config.run}/") not in lines:
        write_whole(LOOKED_AT, "\n".join([*lines, line]) + "\n")
