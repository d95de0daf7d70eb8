"""What the audit's reference models see, and what they compute alike."""

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Activations:
    """One layer's activations for a sentence, its first token in front: row j is the prefix of length j.

    Attributes:
        residual: (rows, d) r, to which the feed-forward output is added, or what a parallel block reads
            (``composition.residual``).
        m: (rows, d_m) what the values are multiplied by.
        scores: (rows, d_m) each, the sums that m is made of: x K^T + b1, or those of the gate and the up matrix.
        ffn: (rows, d) y, the feed-forward layer's output.
        output: (rows, d) o, the layer's output.
        signs: 2 if memory d_m + i is memory i with its sign changed.
        outliers: whether the first row is not like the others: many models give it far larger numbers.
    """

    residual: torch.Tensor
    m: torch.Tensor
    scores: tuple[torch.Tensor, ...]
    ffn: torch.Tensor
    output: torch.Tensor
    signs: int = 1
    outliers: bool = False

    def coefficients(self) -> torch.Tensor:
        """Return the memory coefficients (rows, memories)."""
        return torch.cat([self.m, -self.m], 1) if self.signs == 2 else self.m

    def noise(self, share: float) -> float:
        """Return the largest error of a coefficient, where a score's is a share of the layer's largest score."""
        return share * self._largest(self.scores[0] if len(self.scores) == 1 else self.m)

    def unsure(self, share: float) -> torch.Tensor:
        """Return (memories,) whose coefficient at the last row may have either sign, or none."""
        last = [score[-1] for score in self.scores]
        found = torch.zeros_like(last[0], dtype=torch.bool)
        for score, own in zip(self.scores, last, strict=True):
            found |= own.abs() <= share * self._largest(score)
        if self.signs == 2:  # GELU below zero is a difference of equal numbers
            made = torch.stack(last).prod(0).abs()
            found |= (self.m[-1] != 0) & (self.m[-1].abs() <= share * made)
            return torch.cat([found, found])
        return found

    def _largest(self, numbers: torch.Tensor) -> float:
        return float(numbers[int(self.outliers and len(numbers) > 1) :].abs().max())


@dataclass(frozen=True)
class Changed:
    """What a sentence's last token gives behind the last layer, (d,) each: as it is, and with one change.

    ``direct``: what the change adds by itself, with the norm behind its feed-forward layer, if there is one, held at
    the deviation that it has. ``ffn``: that layer's output y with the change.
    """

    before: torch.Tensor
    after: torch.Tensor
    direct: torch.Tensor
    ffn: torch.Tensor


def held(scale: torch.Tensor, epsilon: float, centred: bool, change: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Return what a change (d,) adds behind a norm whose deviation is held at that of ``at`` (d,)."""
    if centred:
        change, at = change - change.mean(), at - at.mean()
    return scale * change / (at.square().mean() + epsilon).sqrt()


AT_ONCE = 256  # values that are multiplied by the output matrix at once
USUAL = 100.0  # the largest size of logits and log-probabilities that the limits are for


def slack(log_probabilities: torch.Tensor, limit: float) -> torch.Tensor:
    """Return (n,) the largest error of log-probabilities (n, vocab): larger where they are unusually large."""
    known = log_probabilities.masked_fill(log_probabilities == -torch.inf, 0)  # types that are left out
    return limit * (known.abs().amax(1) / USUAL).clamp(min=1)


def predicts(log_p: torch.Tensor, token: int, left_out: list[int], limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (n,) whether a token is the most probable one, and whether that is a near-tie; ``log_p``: (n, vocab).

    Args:
        left_out: tokens that do not count.
        limit: how far log p may be off (``slack``).
    """
    error = slack(log_p, limit)
    log_p = log_p.index_fill(1, torch.tensor(left_out, dtype=torch.long), -torch.inf)
    may = log_p >= (log_p.amax(1) - error)[:, None]
    return log_p.argmax(1) == token, may[:, token] & (may.sum(1) > 1)


class Enough(Exception):
    """Raised behind the last layer that is needed, to leave the others out."""


def stop(*_: Any) -> None:
    """Leave out what follows a module: its forward hook."""
    raise Enough
