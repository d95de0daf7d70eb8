"""Decide whether a recomputed number equals a recorded one.

Recorded numbers were computed in batches, in the run's declared precision; recomputed ones by a reference model, where
it matters in float64. So numbers agree only up to ``tolerances``. Tokens or ranks may change places only if that
precision cannot tell their scores apart: such a near-tie is counted separately and is not a difference.

A float32 sum of d products is off by about sqrt(d) roundings of its largest terms, each 6e-8 of them: after sixteen
layers by about 1e-6. Measured on the demo model, in units of a factor's rounding: 2 for a layer's largest coefficient,
12 for a log-probability. The limits leave room for wider and deeper models.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ff_memories.base.arithmetic import ROUNDOFF, SLACK, Precision

MOST = 100  # times the usual error that a row's own may be, whatever is measured
ERRORS = 8  # times a row's measured error, another order of the same float32 sums may be off: of 600 rows, 3.8 at most
FEW = 10  # rows that near-ties may change in a table of any size, beside the shares ``excused`` and ``near_ties``
USUAL = 100.0  # the largest size of logits and log-probabilities that the limits are for
AT_ONCE = 256  # values that are multiplied by the output matrix at once
INTERVAL = 0.1  # for statistics that follow from the tables: the share of their confidence interval's width


@dataclass(frozen=True)
class Tolerances:
    """The limits for one ``extraction.precision``."""

    coefficient: float  # of coefficients, relative to the number itself
    tie: float  # of coefficients that may change places, relative to the larger one
    # of coefficients, as a share of the layer's largest one: a score near zero is a difference of terms that large
    noise: float
    probability: float  # of probabilities, relative; of log-probabilities that may change places, absolute
    count: float  # of how often a key fires, relative: a coefficient next to zero may have either sign
    excused: float  # the largest share of a table's rows that near-ties may change between two runs
    near_ties: float  # the largest share of a table's recomputed rows that may hang on them, if a verdict rests on it


def tolerances(precision: Precision) -> Tolerances:
    """Return the limits for a precision."""
    if precision == "float32":
        return Tolerances(
            SLACK[precision], tie=1e-5, noise=1e-5, probability=1e-4, count=0.002, excused=0.01, near_ties=0.01
        )
    unit = ROUNDOFF[precision]
    shares = (0.02, 0.25, 0.1) if precision == "tf32" else (0.05, 0.75, 0.25)
    return Tolerances(SLACK[precision], 8 * unit, 8 * unit, 64 * unit, *shares)


MATCH, NEAR_TIE, DIFFERS = "match", "near-tie", "differs"
OF_LOGIT = 0.05  # a change's limit is that of a number as large as this share of the largest logit: 5e-6 in float32,
# where 30 layers were off by 1.2e-6


@dataclass(frozen=True)
class Result:
    """The result for a row or a column; ``says``: what differs; ``difference``: a number's relative difference."""

    state: str = MATCH
    says: str = ""
    difference: float = 0.0


RowResult = tuple[str, str, Result]  # table, place, result
Error = Callable[[torch.Tensor, float], float]  # from scores, and how far they are usually off, to how far they are


def slack(log_probabilities: torch.Tensor, limit: float) -> torch.Tensor:
    """Return (n,) the largest error of log-probabilities (n, vocab): larger where they are unusually large."""
    finite = log_probabilities.masked_fill(log_probabilities == -torch.inf, 0)  # types that are left out
    return limit * (finite.abs().amax(1) / USUAL).clamp(min=1)


class Tops:
    """The most probable token of each of a layer's memories, and the tokens that are near-ties with it.

    A memory's are found when it is first asked about, because a softmax over all words takes long.

    Args:
        log_p: of memories (n,), their log-probabilities (n, vocab).
        memories: how many there are.
        left_out: tokens that do not count.
        limit: how far log p may be off (``slack``).
    """

    def __init__(self, log_p: Callable[[torch.Tensor], torch.Tensor], memories: int, left_out: list[int], limit: float):
        self.log_p, self.limit, self.left_out = log_p, limit, torch.tensor(left_out, dtype=torch.long)
        self.top = torch.full((memories,), -1)
        self.flat = torch.zeros(memories, dtype=torch.bool)  # whether all tokens are near-ties, as of a value of zeros
        self.ties = torch.empty(2, 0, dtype=torch.long)  # memory, token: of others that have more than one

    def predicting(self, token: int, among: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (memories,) whether a token is the most probable one, and whether that is a near-tie.

        ``among``: (memories,) those that are asked about; of the others, neither is said.
        """
        asked = (among & (self.top < 0)).nonzero()[:, 0]
        for start in range(0, len(asked), AT_ONCE):
            self._find(asked[start : start + AT_ONCE])
        tied = self.flat & ~(self.left_out == token).any()
        tied[self.ties[0, self.ties[1] == token]] = True
        return among & (self.top == token), among & tied

    def _find(self, rows: torch.Tensor) -> None:
        log_p = self.log_p(rows)
        error = slack(log_p, self.limit)
        log_p = log_p.index_fill(1, self.left_out, -torch.inf)
        self.top[rows] = log_p.argmax(1)
        may = log_p >= (log_p.amax(1) - error)[:, None]
        several = may.sum(1)
        self.flat[rows] = (several > 1) & (several == may.shape[1] - len(self.left_out))
        memory, token = (may & ((several > 1) & ~self.flat[rows])[:, None]).nonzero().unbind(1)
        self.ties = torch.cat([self.ties, torch.stack([rows[memory], token])], 1)


def together(results: list[Result]) -> Result:
    """Combine the results of a row's columns."""
    states = {result.state for result in results}
    state = next(s for s in (DIFFERS, NEAR_TIE, MATCH) if s in states or s == MATCH)
    says = "; ".join(result.says for result in results if result.state == state and result.says)
    return Result(state, says, max(result.difference for result in results))


def unlike(column: str, recorded: Any, found: Any, tied: bool = False) -> Result:
    """Return the result for two values that are not the same; ``tied``: whether they may change places."""
    return Result(NEAR_TIE if tied else DIFFERS, f"{column} is {recorded}, recomputed {found}")


def equal(column: str, recorded: Any, found: Any) -> Result:
    """Compare two values that must be equal."""
    return Result() if recorded == found else unlike(column, recorded, found)


def within(column: str, recorded: int, found: int, low: int, high: int) -> Result:
    """Compare a count; ``low`` to ``high`` is its range, because some of its members are too close to call."""
    return Result() if recorded == found else unlike(column, recorded, found, low <= recorded <= high)


@dataclass(frozen=True)
class Comparer:
    """Compare numbers, top tokens and ranks within the limits of a run's precision."""

    limits: Tolerances
    seen: list[torch.Tensor] | None = None  # a list keeps coefficients, logits and log p that are compared, in order
    # by how much each of these may be off besides, up to ``MOST`` times the usual error, if it was measured: a row's
    # numbers are compared in one order, whatever they are
    errors: Iterator[float] | None = None

    def coefficient(
        self, column: str, recorded: float, found: float, noise: float = 0.0, scale: float | None = None
    ) -> Result:
        """Compare a coefficient, relative to its own size or ``scale``; ``noise``: an absolute error to ignore."""
        scale = max(abs(found if scale is None else scale), noise / self.limits.coefficient)
        return _number(column, recorded, found, scale, self.limits.coefficient)

    def slack(self, scores: torch.Tensor) -> float:
        """Return the largest error of logits or log-probabilities (vocab,)."""
        return self.error(scores, float(slack(scores[None], self.limits.probability)[0]))

    def error(self, scores: torch.Tensor, usual: float) -> float:
        """Return the largest error of coefficients or scores that are usually off by so much, their own if measured."""
        if self.seen is not None:
            self.seen.append(scores)
        return usual + (0.0 if self.errors is None else min(next(self.errors, 0.0), MOST * usual))

    def narrow(self, scores: torch.Tensor) -> float:
        """Return the largest error of scores (vocab,) of one value: ``slack``, or less where they hardly differ."""
        finite = scores[scores > -torch.inf]
        return min(self.slack(scores), self.limits.probability * OF_LOGIT * float(finite.max() - finite.min()))

    def probability(self, column: str, recorded: float, log_probabilities: torch.Tensor, token: int) -> Result:
        """Compare a token's probability, relative to its own size."""
        probability = float(log_probabilities[token].exp())
        return _number(column, recorded, probability, abs(probability), self.slack(log_probabilities))

    def ratio(self, column: str, recorded: float, found: float) -> Result:
        """Compare a number, relative to its own size."""
        return _number(column, recorded, found, abs(found), self.limits.probability)

    def shift(self, column: str, recorded: float, found: float, logits: torch.Tensor, after: torch.Tensor) -> Result:
        """Compare how much logits (vocab,) or log p change, relative to itself, or to them; ``after``: they, changed.

        It is the difference of two numbers, whose errors are shares of their own size, however small the change is.
        The sign of a change that is smaller than its error cannot be told: another one, or none, is a near-tie.
        """
        usual = self.limits.probability * max(abs(found), OF_LOGIT * float(logits.abs().max()))
        scale = self.error(torch.stack([logits, after]), usual) / self.limits.probability
        result = _number(column, recorded, found, scale, self.limits.probability)
        other = recorded * found <= 0 and abs(recorded - found) > self.limits.probability * abs(found)
        if result.state == DIFFERS or not other:
            return result
        return Result(NEAR_TIE, f"{column} is {recorded:.7g}, recomputed {found:.7g}", result.difference)

    def top(self, column: str, recorded: int, log_probabilities: torch.Tensor) -> Result:
        """Compare a most probable token."""
        top = int(log_probabilities.argmax())
        bar = log_probabilities[top] - self.slack(log_probabilities)
        if recorded == top:
            return Result()
        close = recorded < len(log_probabilities) and log_probabilities[recorded] >= bar
        return unlike(column, recorded, top, bool(close))

    def rank(self, column: str, recorded: int, log_probabilities: torch.Tensor, token: int) -> Result:
        """Compare a token's rank: how many tokens are more probable."""
        log_probability, limit = log_probabilities[token], self.slack(log_probabilities)
        bars = log_probability + limit, log_probability, log_probability - limit
        low, rank, above = (int((log_probabilities > bar).sum()) for bar in bars)
        return within(column, recorded, rank, low, above - 1)  # it is above the lower bar itself


def _number(column: str, recorded: float, found: float, scale: float, limit: float) -> Result:
    difference = abs(recorded - found) / max(scale, 1e-30)
    if difference <= limit and scale < math.inf:  # an overflow excuses nothing
        return Result(difference=difference)
    return Result(DIFFERS, f"{column} is {recorded:.7g}, recomputed {found:.7g}", difference)
