"""How many rows to look at, and what may be said of those that were not looked at."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from ff_memories.base.errors import UserError
from ff_memories.base.seeds import generator


@dataclass(frozen=True)
class Aim:
    """The statement wanted: with ``confidence``, fewer than ``share`` of a table's rows differ."""

    confidence: float = 0.95
    share: float = 0.0075
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("confidence", "share"):
            if not 0 < getattr(self, name) < 1:
                raise UserError(f"--{name} {getattr(self, name):g}: a number between 0 and 1 is wanted")

    @property
    def rows(self) -> int:
        """The smallest n of rows, all of them right, that supports the statement: (1 - share)^n <= 1 - confidence."""
        return math.ceil(math.log(1 - self.confidence) / math.log(1 - self.share))

    def draw(self, purpose: str, population: int) -> np.ndarray:
        """Return the rows to look at, drawn without replacement, in ascending order; all of a small table."""
        if population <= self.rows:
            return np.arange(population)
        return np.sort(generator(self.seed, f"audit {purpose}").choice(population, self.rows, replace=False))

    def bound(self, rows: int, differ: int) -> float:
        """Return the share of rows that may differ at most, with the confidence asked for (Clopper and Pearson)."""
        return 1.0 if differ >= rows else float(beta.ppf(self.confidence, differ + 1, rows - differ))

    def statement(self, rows: int, differ: int, population: int, match: str, other: str = "differ") -> str:
        """Return a finding in words: ``398 of 398 rows match: with 95 % confidence fewer than 0.75 % ... differ``."""
        found = f"{rows - differ:,} of {rows:,} {match}"
        if rows == population:
            return f"{found}: these are all there are"
        bound = 100 * self.bound(rows, differ)
        return (
            f"{found}: with {100 * self.confidence:g} % confidence fewer than {bound:.2g} % of {population:,} {other}"
        )
