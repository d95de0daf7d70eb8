"""Write a trace's last position as lines for a terminal."""

from collections.abc import Iterator
from typing import Any

from ff_memories.base.text import MINUS, escape_invisible
from ff_memories.report.trace import setting

SHOWN = 3  # memories per layer


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield a line per layer: kind, what residual, update and output predict, and the memories with most share."""
    if "weights" in found:
        yield found["weights"]
    last = found["positions"][-1]
    yield f"after {escape_invisible(last['token'])} (position {last['position']}), token and probability:"
    yield f"{'layer':>5}  {'kind':<11}  {'residual':<20}  {'update':<20}  {'output':<20}  memories, share of the update"
    for cell in found["cells"][-len(found["layers"]) :]:
        own = [
            f"{memory['key']}{MINUS if memory['sign'] < 0 else ''} {memory['share']:.0%}"
            for memory in cell["memories"][:SHOWN]
        ]
        tops = "  ".join(_top(cell[part][0]) for part in ("residual", "update", "output"))
        yield f"{cell['layer']:5}  {cell['kind']:<11}  {tops}  {', '.join(own) or 'none is active'}"
    if "set" in found:
        yield f"with {', '.join(map(setting.said, found['set']))} at this position, the model predicts"
        yield f"{'before':<20}  {'after':<20}"
        yield from (f"{_top(one)}  {_top(other)}" for one, other in zip(found["before"], found["after"], strict=True))


def _top(top: dict[str, Any]) -> str:
    word = escape_invisible(top["token"])
    return f"{word if len(word) <= 13 else word[:12] + '…':<13} {top['probability']:6.3f}"
