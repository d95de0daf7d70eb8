"""Times, memory and machines of a recorded run's jobs, by rule, in a small file beside sources.yaml.

They change from run to run, so no record has them. Snakemake's benchmark files and the steps' logs have them where the
run was computed.
"""

from pathlib import Path
from typing import Any

from ff_memories.base import foreign, machine
from ff_memories.base.files import write_json
from ff_memories.report.outcome import costs
from ff_memories.workflow.run import Run

NAME = "machines.json"


def path_of(run: Run) -> Path:
    """Return the path of a run's file."""
    return run.sources_yaml.with_name(NAME)


def read(run: Run) -> dict[str, dict[str, Any]]:
    """Return {rule: its jobs, seconds, largest peak in MiB, and machine in words}; empty if no file is here."""
    path = path_of(run)
    return foreign.read_json(path, dict[str, dict[str, Any]], f"run git checkout {path}") if path.is_file() else {}


def keep(run: Run) -> None:
    """Save what the logs here say; of rules without logs here, keep what is known."""
    rows, logs = read(run), Path(run.path("logs"))
    by_rule = {name: log for log in sorted(logs.rglob("*.log")) for name in (log.stem, log.parent.name)}
    for cost in costs([str(path) for path in logs.rglob("*.tsv")]):
        description = machine.of_log(by_rule[cost.rule]) if cost.rule in by_rule else ""
        row = {"jobs": cost.jobs, "seconds": round(cost.seconds, 1), "peak_mib": cost.peak_mib, "machine": description}
        rows[cost.rule] = row
    if rows:
        write_json(path_of(run), dict(sorted(rows.items())))
