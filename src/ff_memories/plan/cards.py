"""How fast a GPU that is not here would do a plan's work: its products' floor, times what a step takes over it.

``cards.toml`` holds the cards and the measured shares. Its dense rates are from NVIDIA's datasheets: "H100 Tensor Core
GPU" (SXM), "A100 Tensor Core GPU" (80 GB SXM), "L4 Tensor Core GPU", and "Ada GPU Architecture", appendix A (RTX 4090;
bfloat16 with float32 sums). A card that was not measured reaches the share of its datasheet that the card with
measurements reached.
"""

import tomllib
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from ff_memories.base.arithmetic import Precision
from ff_memories.plan.costs import Shape, Speed


@dataclass(frozen=True)
class Share:
    """A measured share: the time of ``step`` over that of its products. ``origin`` and ``date``: of the number."""

    step: str
    card: str
    precision: Precision
    matrices: int  # of a feed-forward layer
    over: float
    date: date
    origin: str


@dataclass(frozen=True)
class Card:
    """A kind of GPU: its dense products in TFLOP/s, its memory in GB and GB/s, and its fastest measured products."""

    name: str
    float32: float
    tf32: float
    bfloat16: float
    memory: float
    bandwidth: float
    measured: dict[str, float] = field(default_factory=dict)

    def product(self, precision: Precision) -> float:
        """Return the TFLOP/s of the fastest product: measured, or computed from the datasheet's rate."""
        if precision in self.measured:
            return self.measured[precision]
        reference = next(card for card in cards().values() if precision in card.measured)
        return getattr(self, precision) * reference.measured[precision] / getattr(reference, precision)

    def measures(self, step: str, precision: Precision, matrices: int) -> bool:
        """Return whether a step's share was measured: of the step itself, on this card, precision and kind of layer."""
        shared = [(share.step, share.precision, share.matrices) for share in shares() if cards()[share.card] is self]
        return (step, precision, matrices) in shared

    def over(self, step: str, precision: Precision, matrices: int) -> float:
        """Return a step's time over its floor, by the share that was measured under the most similar conditions.

        The time of the products follows the fastest product; the rest moves memory, and follows the bandwidth.
        """
        unlike = lambda s: (cards()[s.card] is not self, s.matrices != matrices, s.precision != precision)
        share = min((share for share in shares() if share.step == step), key=unlike)
        there = cards()[share.card]
        faster = self.product(precision) / there.product(share.precision)
        return 1 + (share.over - 1) * faster * there.bandwidth / self.bandwidth

    def speed(self, shape: Shape, precision: Precision) -> Speed:
        """Return the seconds per unit of work."""
        operations = 1e12 * self.product(precision)
        layer = 2 * shape.model * (4 * shape.model + shape.matrices * shape.keys // shape.signs)
        over = {share.step: self.over(share.step, precision, shape.matrices) for share in shares()}
        return Speed(layer / operations, 2 / operations, start=_table()["start"]["seconds"], over=over)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@cache
def cards() -> dict[str, Card]:
    """Return {name on the command line: card}."""
    return {name: Card(**given) for name, given in sorted(_table()["cards"].items())}


@cache
def shares() -> list[Share]:
    """Return all measured shares."""
    return [Share(**given) for given in _table()["shares"]]
