"""Format numbers for readers, by a claim's unit."""

from collections.abc import Sequence

from ff_memories.base.text import listed
from ff_memories.judge.measurement import Limit

SCALE = {"share": 100, "change": 100, "points": 100}
SIGN = {"share": " %", "change": " %", "points": " points", "factor": " ×"}
NOTHING = "–"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits, grouped thousands and a true minus sign."""
    if value is None:
        return NOTHING
    if value and (abs(float(f"{value:.{digits}g}")) >= 10**digits or abs(value) < 1e-4):
        text = f"{value:,.0f}" if abs(value) >= 1 else f"{value:.{digits - 1}e}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "−")


def measured(value: float | None, unit: str) -> str:
    """Return a measured value with its unit, or ``NOTHING`` for ``None``."""
    if value is None:
        return NOTHING
    if unit == "layer":
        return f"layer {value:.0f}"
    text = number(value * SCALE.get(unit, 1))
    if unit == "points" and text in ("1", "−1"):
        return f"{text} point"
    return text + SIGN.get(unit, "")


def joined(values: Sequence[float | None], unit: str) -> str:
    """Return values of one unit for a sentence, such as ``73, 43 and 78 %``, to two digits unless that makes 100 %."""
    if unit == "layer":
        layers = listed([NOTHING if value is None else f"{value:.0f}" for value in values])
        return f"layer{'s' if len(values) > 1 else ''} {layers}"
    scaled = [None if value is None else value * SCALE.get(unit, 1) for value in values]
    texts = [number(value, 3 if unit == "share" and value and 99 < value < 100 else 2) for value in scaled]
    return listed(texts) + (" point" if unit == "points" and texts in (["1"], ["−1"]) else SIGN.get(unit, ""))


def spread(low: float | None, high: float | None, unit: str) -> str:
    """Return a 95 % interval in the unit of its value, or nothing."""
    if low is None or high is None:
        return ""
    return " to ".join(number(end * SCALE.get(unit, 1)) for end in (low, high))


def needed(limit: Limit, unit: str) -> str:
    """Return in words what a claim needs of its number."""
    low, high = (None if end is None else measured(end, unit) for end in (limit.low, limit.high))
    if low is None or high is None:
        return f"at most {high}" if low is None else f"more than {low}" if limit.low == 0 else f"at least {low}"
    return f"{low} to {high}"
