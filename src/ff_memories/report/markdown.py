"""Write a run's answers and verdicts as Markdown for a README, appendix or pull request, without corpus text."""

import re
from collections.abc import Sequence
from typing import Any

from ff_memories.base.text import escape_invisible
from ff_memories.judge import wording
from ff_memories.judge.numbers import measured, spread
from ff_memories.model.info import ABOUT

COLUMNS = ("Claim", "Measure", "Paper", "Here", "n", "Chance", "Untrained", "Random networks", "Group")


def markdown(heading: str, scope: str, first: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """Return ``summary.md``.

    Args:
        heading: the run and its verdicts, on one line.
        scope: whose results these are (``model.info``).
        first: the run's first lines, as bullets; a finished run prints them on the terminal.
        rows: all claims, from ``outline.rows``.
    """
    lines = [f"# {_plain(heading)}", ""]
    if scope == "model":
        lines += [f"**{ABOUT[scope].capitalize()}.**", ""]
    elif scope == "surrogate":
        lines += ["**Surrogate model: not the paper's.** Nothing here confirms or refutes the paper's own numbers.", ""]
    lines += [f"{wording.BULLET}{_plain(sentence)}" for sentence in first]
    lines += [
        "",
        "## Claim by claim",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
    ]
    for row in rows:
        interval = spread(row["low"], row["high"], row["unit"])
        here = measured(row["measured"], row["unit"]) + (f" ({interval})" if interval else "")
        what = row["measured_as"] + "".join(f" ({note})" for note in row["notes"])
        cells = [row["claim"], what, row["paper_value"], here]
        cells += ["–" if row["n"] is None else f"{row['n']:,}", measured(row["expected"], row["unit"])]
        interval = spread(row["baseline_low"], row["baseline_high"], row["unit"])
        cells.append(measured(row["baseline"], row["unit"]) + (f" ({interval})" if interval else ""))
        also = row["limit_source"] is not None and row["random_models"]
        cells += [f"{row['also_random']} of {row['random_models']}" if also else "–", wording.word(row["standing"])]
        lines.append("| " + " | ".join(map(_plain, cells)) + " |")
    lines += [
        "",
        "Brackets show the 95 % interval, and for untrained models that of one more of them. The last column but one "
        "says how many of them show the claim too. For figures, methods and details of every claim, see the "
        "[report](report/report.html).",
        "",
    ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Return text escaped for Markdown."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", escape_invisible(text)).replace("\n", " ")
