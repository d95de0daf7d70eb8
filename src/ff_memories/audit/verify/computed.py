"""Find out which files this machine computed itself, and on which machines a run was computed, from the jobs' logs."""

import os
from pathlib import Path

from ff_memories.audit.compare import Comparison
from ff_memories.audit.compare import page as lines
from ff_memories.base.hardware import machine
from ff_memories.base.text.templates import environment
from ff_memories.workflow.engines import lock
from ff_memories.workflow.recorded import provenance
from ff_memories.workflow.runs.run import Run

PAGE = "recomputed.html"  # next to the report, which shows it if it exists


def digests(results: str) -> dict[str, str]:
    """Return {file: MD5} of the files that a run's jobs wrote here, from the last lines of their logs."""
    found: dict[str, str] = {}
    for log in _logs(results):
        found |= machine.said(log, machine.MADE, {})
    return found


def _logs(results: str) -> list[Path]:
    return sorted(Path(results, "logs").rglob("*.log"))


def here(path: str, known: dict[str, str]) -> bool:
    """Return whether a job of this machine wrote a file, or a whole folder, and nobody edited it since."""
    files = list(map(str, lock.inside(path))) if os.path.isdir(path) else [path]
    return bool(files) and all(known.get(file) == lock.digest(file) for file in files)


def machines(run: Run) -> tuple[list[str], list[str]]:
    """Return in words the machine that recorded a run and the machine that computed it here, if known.

    Of several machines, it is the one with the longest description, which ran the model.
    """
    recorded = {job.machine for stage in provenance.read(run).values() for job in stage.jobs}
    return _most(recorded), _most({machine.of(log) for log in _logs(run.results)})


def _most(known: set[str]) -> list[str]:
    return sorted(known - {""}, key=len)[-1:]


def page(found: Comparison, recorded: list[str], here: list[str]) -> str:
    """Return the page that compares a run computed here with the recorded one: both machines, and the tables."""
    shown = environment("report").get_template("recomputed.html.j2")
    return shown.render(found=found, recorded=recorded, here=here, lines=list(lines(found)))
