"""Put a run's verdicts into words: for each verdict, for a run in one line, and for a finished run's last lines."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ff_memories.claims.order import beyond
from ff_memories.model.scope import MARKS
from ff_memories.tables import VERDICTS

PLURALS = {"holds": "hold", "fails": "fail"}
WORDS = {"fails": "does not hold", "too_small": "smaller than stated", "measured": "measured, not judged"}
TRAINING = {
    "higher": "training raises it",
    "lower": "training lowers it",
    "same": "the same untrained",
    "undecided": "undecided",
}
LIMITS = {"paper": "the paper's words", "figure": "read off the paper's figure", "ours": "our reading"}
BULLET = "- "


def counts(claims: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return the count of each verdict on the paper's claims, as shown.

    ``claims``: the content of a run's ``claims.json``, or other rows by claim.
    """
    own = (row for claim, row in claims.items() if not beyond(claim))
    return dict(Counter(shown(row["verdict"], row.get("measured")) for row in own))


def line(run: str, scope: str, verdicts: Mapping[str, int]) -> str:
    """Return ``demo (surrogate): 11 hold, 5 fail, 14 measured``."""
    told = [f"{verdicts[v]} {PLURALS.get(v, v.replace('_', ' '))}" for v in VERDICTS if v in verdicts]
    whose = MARKS["model"] if scope == "model" else scope
    return f"{run} ({whose}): {', '.join(told)}"


def word(verdict: str) -> str:
    """Return a verdict in words."""
    return WORDS.get(verdict, verdict.replace("_", " "))


def shown(verdict: str, measured: float | None) -> str:
    """Return the verdict to show: a claim that has a number but cannot be judged by it counts as measured."""
    return "measured" if verdict == "not_applicable" and measured is not None else verdict


def first_lines(markdown: str, heading: str) -> list[str] | None:
    """Return a run's first lines, the bullets of its ``summary.md``, as text for a terminal.

    Args:
        markdown: the file's text.
        heading: ``line`` of the run's current verdicts. If the file's heading differs, it is stale: return ``None``.
    """
    text = re.sub(r"\\(.)", r"\1", markdown)
    if not text.startswith(f"# {heading}\n"):
        return None
    return [line.removeprefix(BULLET) for line in text.splitlines() if line.startswith(BULLET)]
