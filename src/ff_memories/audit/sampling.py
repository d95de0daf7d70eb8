"""Choose how many rows to check, and what that implies about the others."""

import math
from dataclasses import dataclass, replace

import numpy as np

from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError

FEWER = 4  # a table of each of several models may have as many times the share of errors


@dataclass(frozen=True)
class Aim:
    """The statement to support: with ``confidence``, fewer than ``share`` of a table's rows differ."""

    confidence: float = 0.95
    share: float = 0.0075
    seed: int = 0
    drawn: bool = False  # whether the seed was drawn for this check, and not given

    def __post_init__(self) -> None:
        for name in ("confidence", "share"):
            if not 0 < getattr(self, name) < 1:
                raise UserError(f"--{name}: expected a number between 0 and 1, got {getattr(self, name):g}")

    @property
    def rows(self) -> int:
        """The smallest sample of n rows that supports the statement if all match: (1 - share)^n <= 1 - confidence."""
        return math.ceil(math.log(1 - self.confidence) / math.log(1 - self.share))

    def of_each(self, models: int) -> "Aim":
        """Return the aim of each of several models: together as many rows as of one, and of each a quarter at least."""
        return replace(self, share=min(0.99, self.share * min(models, FEWER)))

    def draw(self, purpose: str, population: int) -> np.ndarray:
        """Return the rows to check, drawn without replacement, in ascending order; all rows of a small table."""
        if population <= self.rows:
            return np.arange(population)
        return np.sort(generator(self.seed, f"audit {purpose}").choice(population, self.rows, replace=False))

    def bound(self, rows: int, differ: int) -> float:
        """Return the upper confidence bound on the share of rows that differ (Clopper and Pearson)."""
        from scipy.stats import beta  # takes half a second to load

        return 1.0 if differ >= rows else float(beta.ppf(self.confidence, differ + 1, rows - differ))
