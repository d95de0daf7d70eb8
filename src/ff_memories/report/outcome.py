"""What a finished run says on the terminal: its verdicts, its first lines, its cost, and where to look.

The cost is that of Snakemake's benchmark files. Costs vary, so no check compares them.
"""

import csv
import json
import shutil
import textwrap
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ff_memories.base.progress import duration
from ff_memories.judge import wording

MEASURED = ("s", "cpu_time", "max_rss")  # columns of a benchmark file


@dataclass(frozen=True)
class Cost:
    """Total cost of one rule's jobs, in s and MiB; ``None``: all of them ended before Snakemake could measure it."""

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


SLOWEST = 5  # rules whose time it says
WIDTH = 100  # of a line, at most
OPEN = "FF_MEMORIES_OPEN"  # set if a browser is to show the report at the end
PAGES = {"report": "report/report.html", "gallery": "gallery/index.html"}


def outcome(results: Path) -> str:
    """Return what to say of the run of a folder, wrapped; nothing if it has no verdicts yet."""
    try:
        claims = json.loads((results / "claims.json").read_text(encoding="utf-8"))
        scope = json.loads((results / "model/info.json").read_text(encoding="utf-8"))["scope"]
        page = (results / "summary.md").read_text(encoding="utf-8")
    except (OSError, ValueError, LookupError):
        return ""
    verdicts = wording.line(results.name, scope, wording.counts(claims))
    lines = [verdicts, *(wording.first_lines(page, verdicts) or [])]
    if spent := costs([str(path) for path in (results / "logs").rglob("*.tsv")]):
        slowest = ", ".join(f"{cost.rule} {duration(cost.seconds)}" for cost in spent[:SLOWEST])
        total = duration(sum(cost.seconds for cost in spent))
        lines.append(f"Time of all jobs, one after the other: {total}; the most: {slowest}.")
    width = min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDTH)
    wrapped = partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(wrapped, filter(None, [*lines, where(results)])))


def where(results: Path) -> str:
    """Return where to look at a run's results, in one line; nothing if there are none."""
    there = [f"{what} {results / page}" for what, page in PAGES.items() if (results / page).is_file()]
    return f"Where to look: {', '.join(there)}." if there else ""
