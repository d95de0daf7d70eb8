"""A run's verdicts in one line, as a finished run and the README say them."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ff_memories.tables import VERDICTS

WORDS = {"holds": "hold", "fails": "fail"}


def counts(claims: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return how often each verdict was given; ``claims``: the content of a run's ``claims.json``."""
    return dict(Counter(claim["verdict"] for claim in claims.values()))


def line(run: str, scope: str, verdicts: Mapping[str, int]) -> str:
    """Return ``demo (surrogate): 11 hold, 5 fail, 14 measured``."""
    told = [f"{verdicts[v]} {WORDS.get(v, v.replace('_', ' '))}" for v in VERDICTS if v in verdicts]
    return f"{run} ({scope}): {', '.join(told)}"
