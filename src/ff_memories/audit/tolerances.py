"""How far apart two computations of the same number may lie: the limits of everything that compares runs.

A float32 product of d terms is off by about sqrt(d) roundings of its largest terms, each 6e-8 of them, and sixteen
layers add up to some 1e-6. Batches, threads, instruction sets and devices change the order of the terms, hence these
last bits. In tf32 and bfloat16 a last bit that differs may round a factor the other way in the next layer: after a few
layers two runs differ from each other by as much as either differs from the exact numbers. Measured on the demo model,
16 layers of 512 keys, in units of a factor's rounding: 2 of a layer's largest coefficient, 12 of a log-probability.

The limits leave room for wider and deeper models. float32's stay far below any effect that the paper speaks of;
bfloat16's do not for a single row, and near-ties are more.
"""

from dataclasses import dataclass

from ff_memories.base.precision import ROUNDOFF, SLACK, Precision

INTERVAL = 0.1  # a statistic that follows from the tables: this much of its confidence interval's width


@dataclass(frozen=True)
class Tolerances:
    """The limits for one ``extraction.precision``.

    Attributes:
        coefficient: of coefficients, relative to the number itself.
        tie: of coefficients that may change places, relative to the larger one.
        noise: of coefficients, as a share of the layer's largest one: a score near zero is a difference of large terms,
            and its error is relative to them.
        probability: of probabilities, relative; so much, absolute, of log-probabilities that may change places.
    """

    coefficient: float
    tie: float
    noise: float
    probability: float


def of(precision: Precision) -> Tolerances:
    """Return the limits for a precision."""
    if precision == "float32":
        return Tolerances(SLACK[precision], tie=1e-5, noise=1e-5, probability=1e-4)
    unit = ROUNDOFF[precision]
    return Tolerances(SLACK[precision], tie=8 * unit, noise=8 * unit, probability=64 * unit)
