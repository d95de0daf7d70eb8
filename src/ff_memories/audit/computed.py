"""What this machine computed itself: the files that its jobs wrote, as their logs name them, and on what machine."""

import os
from pathlib import Path

from ff_memories.audit.compare import Comparison
from ff_memories.audit.compare import page as lines
from ff_memories.base import machine
from ff_memories.base.templates import environment
from ff_memories.workflow import lock, provenance

PAGE = "recomputed.html"  # beside the report, which shows it where it is there


def digests(results: str) -> dict[str, str]:
    """Return {file: MD5} that the jobs of a run wrote here, by the last line of their logs."""
    found: dict[str, str] = {}
    for log in _logs(results):
        found |= machine.said(log, machine.MADE, {})
    return found


def _logs(results: str) -> list[Path]:
    return sorted(Path(results, "logs").rglob("*.log"))


def here(path: str, known: dict[str, str]) -> bool:
    """Whether a file, or all of a folder, is what a job of this machine wrote, by ``digests``, and was not edited."""
    files = list(map(str, lock.inside(path))) if os.path.isdir(path) else [path]
    return bool(files) and all(known.get(file) == lock.digest(file) for file in files)


def machines(results: str, configfile: Path | None) -> tuple[list[str], list[str]]:
    """Return in words what a run was recorded on and what it was computed on here, if that is known.

    Of several machines it is the one of most facts, which runs the model.
    """
    recorded = {job.machine for stage in provenance.read(configfile).values() for job in stage.jobs}
    return _most(recorded), _most({machine.of(log) for log in _logs(results)})


def _most(known: set[str]) -> list[str]:
    return sorted(known - {""}, key=len)[-1:]


def page(found: Comparison, recorded: list[str], here: list[str]) -> str:
    """Return the page that says how a run computed here compares with the recorded one: both machines, the tables."""
    shown = environment("report").get_template("recomputed.html.j2")
    return shown.render(found=found, recorded=recorded, here=here, lines=list(lines(found)))
