"""Say what a run lacks when it ends.

Snakemake makes what its targets need. A file in between may be missing once all that is made of it is there, as after a
run that was killed; Snakemake then has nothing to do, and the run is not whole.
"""

import os
from typing import Any

from ff_memories.workflow.jobs import is_intermediate
from ff_memories.workflow.runs.run import Run

MOST = 20  # files in a command


def missing(workflow: Any, run: Run) -> list[str]:
    """Return the outputs in a run's folder that Snakemake's jobs declare and that are missing, sorted."""
    every = {str(out) for job in workflow.dag.jobs for out in job.output if not is_intermediate(out)}
    return sorted(out for out in every if out.startswith(f"{run.results}/") and not os.path.lexists(out))


def say(workflow: Any, run: Run) -> str:
    """Return which outputs a run lacks and the command that makes them; nothing if it is whole."""
    if not (gone := missing(workflow, run)):
        return ""
    listed = "".join(f"\n  {path}" for path in gone[:MOST])
    more = f"\n  and {len(gone) - MOST} more; run the command again for them" if len(gone) > MOST else ""
    fix = f"fix: run {run.again(*gone[:MOST])}"
    return f"{run.results} is not whole: missing {len(gone)} of its files{listed}{more}\n  {fix}"
