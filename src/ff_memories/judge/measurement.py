"""Hold a check's result: a number with its interval and n, and the number that is judged against the claim's limit."""

import math
from dataclasses import InitVar, dataclass, field

import numpy as np

from ff_memories.base.draws import ends


@dataclass(frozen=True)
class Limit:
    """What a number must reach (``low``), must not exceed (``high``), or between which two it must lie."""

    low: float | None = None
    high: float | None = None

    def nearest(self, number: float) -> float:
        """Return the end that is nearer to a number."""
        return min((end for end in (self.low, self.high) if end is not None), key=lambda end: abs(end - number))

    def reached(self, number: float) -> bool:
        """Return whether a number is within the limit; no difference is not one above zero."""
        above = self.low is None or number > self.low or (number == self.low and self.low != 0)
        return above and (self.high is None or number <= self.high)


def _finite(value: float | None) -> float | None:
    """Return ``None`` for values that are not finite, since tables hold null and never NaN."""
    return None if value is None or not math.isfinite(value) else float(value)


@dataclass(frozen=True)
class Judged:
    """The number that a claim is judged by, and what the claim needs of it."""

    value: float
    low: float | None  # of the 95 % interval; ``None`` if nothing was resampled
    high: float | None
    limit: Limit
    # whether the direction that the claim states is clear, whatever the stated size; ``None``: not tested
    clear: bool | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, _finite(getattr(self, name)))

    @property
    def shows(self) -> str:
        """Whether the model shows what the paper claims.

        ``yes`` or ``no`` only if the interval lies wholly on one side of the limit, ``too_small`` if the stated size is
        missed but the stated direction is clear, else ``undecided``.
        """
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        if self.limit.reached(low) and self.limit.reached(high):
            return "yes"
        below = self.limit.low is not None and not Limit(self.limit.low).reached(high)
        above = self.limit.high is not None and not Limit(high=self.limit.high).reached(low)
        return "undecided" if not (below or above) else "too_small" if self.clear else "no"


@dataclass
class Measurement:
    """One claim, measured."""

    value: float | None = None  # the number; ``None`` if nothing could be measured
    # of the 95 % interval, by default that of ``draws``; ``None`` if nothing was resampled
    low: float | None = None
    high: float | None = None
    n: int | None = None  # rows behind the value (keys, triggers, values, examples, pairs)
    units: int | None = None  # independent units among them, which are resampled; ``None``: all of ``n``
    # what the claim is judged by; ``None`` if that cannot be decided here. With a ``limit``, it is the number itself,
    # and the direction is clear if the interval of ``draws`` lies on the claim's side of ``null``
    judged: Judged | None = None
    expected: float | None = None  # the number that chance gives, if it follows from the same tables
    reason: str = ""  # additional information, or why there is no answer
    few: str = ""  # why there is too little evidence for a judgement; nothing if there is enough
    proxy: bool = False  # whether it is based on the automatic proxy's labels
    # resamples of the number that the test of the claim's direction compares with ``null`` (in claims.toml)
    draws: np.ndarray | None = field(default=None, compare=False, repr=False)
    limit: InitVar[Limit | None] = None
    null: InitVar[float] = 0.0

    def __post_init__(self, limit: Limit | None, null: float) -> None:
        if self.low is None and self.draws is not None:
            self.low, self.high = ends(self.draws)
        for name in ("value", "low", "high", "expected"):
            setattr(self, name, _finite(getattr(self, name)))
        if self.n is not None:
            self.n = int(self.n)
            self.units = int(self.n if self.units is None else self.units)
        if limit is not None and self.value is not None:
            clear = is_clear(self.draws, null, limit.low is None)
            self.judged = Judged(self.value, self.low, self.high, limit, clear)

    @property
    def error(self) -> float | None:
        """The standard error of the number, from the width of its interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / (2 * 1.96)


def by_draws(value: float, draws: np.ndarray, limit: Limit, clear: bool | None = None) -> Judged:
    """Return a judgement by a number with resamples of its own."""
    return Judged(value, *ends(draws), limit, clear)


def is_clear(draws: np.ndarray | None, null: float = 0.0, below: bool = False) -> bool | None:
    """Return whether the interval of resamples lies wholly on the claim's side of ``null``."""
    if draws is None or not len(draws):
        return None
    low, high = ends(draws)
    return high < null if below else low > null
