"""Hold a check's result: a number with its interval and n, and whether the claim holds."""

import math
from dataclasses import dataclass, field

import numpy as np


def _finite(value: float | None) -> float | None:
    """Return ``None`` for values that are not finite, since tables hold null and never NaN."""
    return None if value is None or not math.isfinite(value) else float(value)


@dataclass(frozen=True)
class Measurement:
    """One claim, measured.

    Attributes:
        value: the number; ``None`` if nothing could be measured.
        low, high: its 95 % interval; ``None`` if the value is neither a mean nor the highest or lowest of several.
        n: units behind the value (keys, values, examples, pairs, layers).
        ok: whether the claim holds; ``None`` if that cannot be decided here.
        reason: additional information, or why there is no answer.
        proxy: whether it is based on the automatic proxy's labels.
        draws: resamples of the number that the claim's test compares with ``null`` (in claims.toml).
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
