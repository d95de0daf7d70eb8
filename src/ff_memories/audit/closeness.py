"""When a recomputed number and a recorded one are the same.

What is recorded was computed in float32, in batches; what it is compared with in float64, one sentence at a time. So
numbers agree to ``tolerances.NUMBER`` and only what lies closer together than float32 can tell apart may have changed
places: that is a near-tie, which is counted apart and is no difference.
"""

from dataclasses import dataclass
from typing import Any

import torch

from ff_memories.audit.tolerances import LOGIT, NUMBER

MATCH, NEAR_TIE, DIFFERS = "match", "near-tie", "differs"


@dataclass(frozen=True)
class Result:
    """How one row, or one of its columns, compares; ``says``: what differs; ``difference``: relative, of a number."""

    state: str = MATCH
    says: str = ""
    difference: float = 0.0


def together(results: list[Result]) -> Result:
    """Return a row's result from its columns'."""
    states = {result.state for result in results}
    state = next(s for s in (DIFFERS, NEAR_TIE, MATCH) if s in states or s == MATCH)
    says = "; ".join(result.says for result in results if result.state == state and result.says)
    return Result(state, says, max(result.difference for result in results))


def same(column: str, recorded: Any, found: Any) -> Result:
    """Compare what must be equal."""
    return Result() if recorded == found else Result(DIFFERS, f"{column} is {recorded}, recomputed {found}")


def number(column: str, recorded: float, found: float, scale: float | None = None, noise: float = 0.0) -> Result:
    """Compare a number, relative to its own size or that of ``scale``; ``noise``: an absolute error that is none."""
    scale = max(abs(found if scale is None else scale), noise / NUMBER, 1e-30)
    difference = abs(recorded - found) / scale
    if difference <= NUMBER:
        return Result(difference=difference)
    return Result(DIFFERS, f"{column} is {recorded:.7g}, recomputed {found:.7g}", difference)


def within(column: str, recorded: int, found: int, low: int, high: int) -> Result:
    """Compare a count some of whose members are too close to call."""
    if recorded == found:
        return Result()
    return Result(NEAR_TIE if low <= recorded <= high else DIFFERS, f"{column} is {recorded}, recomputed {found}")


def top(column: str, recorded: int, log_probabilities: torch.Tensor) -> Result:
    """Compare a most probable token."""
    found = int(log_probabilities.argmax())
    if recorded == found:
        return Result()
    close = recorded < len(log_probabilities) and log_probabilities[recorded] >= log_probabilities[found] - LOGIT
    return Result(NEAR_TIE if close else DIFFERS, f"{column} is {recorded}, recomputed {found}")


def rank(column: str, recorded: int, log_probabilities: torch.Tensor, token: int) -> Result:
    """Compare how many tokens are more probable than one."""
    own = log_probabilities[token]
    count = lambda bar: int((log_probabilities > bar).sum())
    return within(
        column, recorded, count(own), count(own + LOGIT), count(own - LOGIT) - 1
    )  # the token itself is above the lower bar
