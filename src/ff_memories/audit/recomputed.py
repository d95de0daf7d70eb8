"""The page beside the report that says how a run computed here compares with the recorded one."""

from pathlib import Path

from ff_memories.audit.compare import Comparison
from ff_memories.audit.compare import page as lines
from ff_memories.audit.computed import describe
from ff_memories.base.templates import environment
from ff_memories.workflow import provenance

PAGE = "recomputed.html"  # the report shows it where it is there


def machines(configfile: Path | None) -> list[str]:
    """Return what the recorded run was computed on, in words; the one of most facts, which runs the model."""
    known = {describe(job.machine) for stage in provenance.read(configfile).values() for job in stage.jobs}
    return sorted(known - {""}, key=len)[-1:]


def page(found: Comparison, recorded: list[str], here: list[str]) -> str:
    """Return the page: the answer, both machines, and every table that differs."""
    shown = environment("report").get_template("recomputed.html.j2")
    return shown.render(found=found, recorded=recorded, here=here, lines=list(lines(found)))
