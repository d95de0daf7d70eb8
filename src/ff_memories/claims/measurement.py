"""What a check found: a number with its interval and n, and whether the claim holds by it."""

import math
from dataclasses import dataclass, field

import numpy as np


def _finite(value: float | None) -> float | None:
    """Return ``None`` for what is no number: tables hold null there, never NaN."""
    return None if value is None or not math.isfinite(value) else float(value)


@dataclass(frozen=True)
class Measurement:
    """One claim, measured.

    Attributes:
        value: the number, ``None`` where nothing could be measured.
        low, high: its 95 % interval, ``None`` where the value is neither a mean nor the highest or lowest of several.
        n: units behind the value (keys, values, examples, pairs, layers).
        ok: whether the claim holds by it; ``None``: the question has no answer here.
        reason: what else a reader should know, or why there is no answer.
        proxy: the labels behind it were given by the automatic proxy.
        draws: of the number that the claim is tested by (its ``null`` in claims.toml), one for each resample.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    ok: bool | None = None
    reason: str = ""
    proxy: bool = False
    draws: np.ndarray | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            object.__setattr__(self, name, _finite(getattr(self, name)))
        if self.n is not None:
            object.__setattr__(self, "n", int(self.n))
        if self.ok is not None:
            object.__setattr__(self, "ok", bool(self.ok))
