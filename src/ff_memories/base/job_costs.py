"""What jobs cost, as the last line of each one's log says. Costs vary, so no check compares them."""

import json
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from ff_memories.base.machine import logged

SPENT = "spent: "  # starts that line


@dataclass(frozen=True)
class Cost:
    """Total cost of one rule's jobs."""

    rule: str
    jobs: int
    seconds: float
    processor_seconds: float
    peak_mib: float  # memory of the job with the most


def spent(begun: float) -> str:
    """Return the line of this process, since ``begun`` (``time.monotonic``), and those that it has waited for.

    Their processor time is summed; of their memory, the largest peak counts.
    """
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cost = {"seconds": time.monotonic() - begun, "processor_seconds": sum(one.ru_utime + one.ru_stime for one in used)}
    cost["peak_mib"] = max(one.ru_maxrss for one in used) / 1024
    return SPENT + json.dumps({name: round(n, 2) for name, n in cost.items()})


def costs(logs: Path) -> list[Cost]:
    """Return the costs by rule, slowest first, that the logs in a folder say; a log is named after its rule."""
    jobs: dict[str, list[dict[str, float]]] = {}
    for log in sorted(logs.rglob("*.log")):
        if cost := logged(log, SPENT, None):
            jobs.setdefault(log.stem, []).append(cost)
    by_rule = []
    for rule, rows in jobs.items():
        seconds, processor = (sum(row[name] for row in rows) for name in ("seconds", "processor_seconds"))
        by_rule.append(Cost(rule, len(rows), seconds, processor, max(row["peak_mib"] for row in rows)))
    return sorted(by_rule, key=lambda cost: (-cost.seconds, cost.rule))
