"""What a finished run says on the terminal: its verdicts, its first lines, its cost, and where to look."""

import json
import shutil
import textwrap
from functools import partial
from pathlib import Path

from ff_memories.base.job_costs import costs
from ff_memories.base.progress import duration
from ff_memories.judge import wording

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
    if spent := costs(results / "logs"):
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
