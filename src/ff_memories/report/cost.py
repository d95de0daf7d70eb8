"""Summarise a run's cost from Snakemake's benchmark files. Costs vary, so no check compares them."""

import csv
from dataclasses import dataclass
from pathlib import Path

MEASURED = ("s", "cpu_time", "max_rss")  # columns of a benchmark file


@dataclass(frozen=True)
class Cost:
    """Total cost of one rule's jobs: wall-clock and processor seconds, and the largest peak memory.

    ``None``: all jobs ended before Snakemake could measure it.
    """

    rule: str
    jobs: int
    seconds: float
    processor_seconds: float | None
    peak_mib: float | None


def costs(paths: list[str]) -> list[Cost]:
    """Return the costs by rule, slowest first. A file is named after its rule, in a folder for each of several jobs."""
    jobs: dict[str, list[dict[str, str]]] = {}
    for path in map(Path, sorted(paths)):
        with path.open(encoding="utf-8", newline="") as file:
            jobs.setdefault(path.stem, []).extend(csv.DictReader(file, delimiter="\t"))
    by_rule = []
    for rule, rows in jobs.items():
        values = ([float(row[name]) for row in rows if row[name] not in ("-", "NA")] for name in MEASURED)
        seconds, processor, memory = values
        by_rule.append(Cost(rule, len(rows), sum(seconds), sum(processor) or None, max(memory, default=None)))
    return sorted(by_rule, key=lambda cost: (-cost.seconds, cost.rule))
