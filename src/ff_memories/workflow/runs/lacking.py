"""Say what a run lacks when it ends.

Snakemake makes what its targets need. A file in between may be missing once all that is made of it is there, as after a
run that was killed; Snakemake then has nothing to do, and the run is not whole.
"""

import logging
import os
from collections.abc import Callable
from typing import Any

from ff_memories.workflow.jobs import is_intermediate
from ff_memories.workflow.runs.run import Run

NOTHING = "Nothing to be done"  # as Snakemake says it
MOST = 20  # files in a command


def lacking(found: Any, results: str) -> list[str]:
    """Return the outputs in a run's folder that its jobs declare and that are missing, sorted.

    Args:
        found: Snakemake's workflow, its jobs known.
        results: the run's folder.
    """
    every = {str(out) for job in found.dag.jobs for out in job.output if not is_intermediate(out)}
    return sorted(out for out in every if out.startswith(f"{results}/") and not os.path.lexists(out))


def said(found: Any, run: Run) -> str | None:
    """Return which outputs a run lacks and the command that makes them; ``None`` if it is whole."""
    if not (gone := lacking(found, run.results)):
        return None
    listed = "".join(f"\n  {path}" for path in gone[:MOST])
    more = f"\n  and {len(gone) - MOST} more; run the command again for them" if len(gone) > MOST else ""
    return (
        f"{run.results} is not whole: missing {len(gone)} of its files{listed}{more}\n"
        f"  fix: run {run.again(*gone[:MOST])}"
    )


def when_nothing_is_done(logger: logging.Logger, tell: Callable[[], str | None], where: Callable[[], str]) -> None:
    """Log what a run lacks, or else where to look, behind Snakemake's message that there is nothing to do."""
    logger.addHandler(_Behind(logger, tell, where))


class _Behind(logging.Handler):
    def __init__(self, logger: logging.Logger, tell: Callable[[], str | None], where: Callable[[], str]):
        super().__init__()
        self.logger, self.tell, self.where = logger, tell, where

    def emit(self, record: logging.LogRecord) -> None:
        if not str(record.msg).startswith(NOTHING):
            return
        if lines := self.tell():
            self.logger.warning(lines)
        elif where := self.where():
            self.logger.info(where, extra={"own": True})
