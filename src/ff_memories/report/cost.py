"""Summarise a run's cost from Snakemake's benchmark files. Costs vary, so no check compares them."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ff_memories.base.errors import UserError


@dataclass(frozen=True)
class Cost:
    """Total cost of one rule's jobs: wall-clock and processor seconds, and the largest peak memory."""

    rule: str
    jobs: int
    seconds: float
    processor_seconds: float | None
    peak_mib: float | None


def costs(paths: list[str]) -> list[Cost]:
    """Return the costs by rule, slowest first.

    A file is named after its rule, in a folder for each of several jobs. Raises ``UserError`` for one that is not a
    benchmark.
    """
    jobs: dict[str, list[dict[str, float | None]]] = {}
    for path in map(Path, sorted(paths)):
        jobs.setdefault(path.stem, []).extend(_rows(path))
    made = [
        Cost(
            rule,
            len(rows),
            sum(row["s"] or 0.0 for row in rows),
            _together(sum, [row["cpu_time"] for row in rows]),
            _together(max, [row["max_rss"] for row in rows]),
        )
        for rule, rows in jobs.items()
        if rows
    ]
    return sorted(made, key=lambda cost: (-cost.seconds, cost.rule))


def _together(how: Callable[[list[float]], float], values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return how(known) if known else None


def _rows(path: Path) -> list[dict[str, float | None]]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        return [
            {name: reading(row.get(name)) for name in ("s", "cpu_time", "max_rss")} | {"s": float(row["s"])}
            for row in rows
        ]
    except (OSError, UnicodeDecodeError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise UserError(f"{path}: not a benchmark file of Snakemake ({error!r})") from None


def reading(text: str | None) -> float | None:
    """Return a number from a benchmark file; ``None`` if the job ended before Snakemake could measure it."""
    try:
        return float(text or "")
    except ValueError:
        return None
