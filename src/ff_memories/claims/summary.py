"""A run's verdicts in words: one word for each, one line for a run, and the last lines of a finished run."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ff_memories.tables import VERDICTS

PLURALS = {"holds": "hold", "holds_as_untrained": "hold as untrained", "fails": "fail"}
WORDS = {"fails": "does not hold", "measured": "measured, not judged"}
BULLET = "- "


def counts(claims: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return how often each verdict was given; ``claims``: the content of a run's ``claims.json``."""
    return dict(Counter(claim["verdict"] for claim in claims.values()))


def line(run: str, scope: str, verdicts: Mapping[str, int]) -> str:
    """Return ``demo (surrogate): 11 hold, 5 fail, 14 measured``."""
    told = [f"{verdicts[v]} {PLURALS.get(v, v.replace('_', ' '))}" for v in VERDICTS if v in verdicts]
    return f"{run} ({scope}): {', '.join(told)}"


def word(verdict: str) -> str:
    """Return a verdict as people read it."""
    return WORDS.get(verdict, verdict.replace("_", " "))


def shown(verdict: str, measured: float | None) -> str:
    """Return the verdict to show: a claim that has a number and cannot be judged by it was measured all the same."""
    return "measured" if verdict == "not_applicable" and measured is not None else verdict


def last_lines(markdown: str, heading: str, report: str) -> list[str] | None:
    """Return what a finished run says on the terminal: the bullets of its ``summary.md``, and where the report is.

    What does not hold and what says little share a line, as do how sure it is and the report.

    Args:
        markdown: the file's text.
        heading: ``line`` of the run's present verdicts. Where the file has another, it is of an earlier run: ``None``.
        report: the report's path.
    """
    text = re.sub(r"\\(.)", r"\1", markdown)
    if not text.startswith(f"# {heading}\n"):
        return None
    bullets = [line.removeprefix(BULLET) for line in text.splitlines() if line.startswith(BULLET)]
    what, holds, fails, little, sure, *sections = bullets
    return [what, holds, f"{fails} {little}", f"{sure} Report: {report}", *sections]
