"""The tolerances of all comparisons: how far two computations of the same number may differ.

A float32 sum of d products is off by about sqrt(d) roundings of its largest terms, each 6e-8 of them; over sixteen
layers this adds up to about 1e-6. Batches, threads, instruction sets and devices change the order of the terms, and
thus the last bits. In tf32 and bfloat16, a different last bit can round a factor the other way in the next layer, so
after a few layers two runs differ from each other as much as from the exact numbers. Measured on the demo model,
with 16 layers of 512 keys, in units of a factor's rounding: 2 for a layer's largest coefficient, 12 for a
log-probability.

The limits leave room for wider and deeper models. Those of float32 are far below every effect in the paper. Those of
bfloat16 are not, for a single row, and it has more near-ties.
"""

from dataclasses import dataclass

from ff_memories.base.arithmetic import ROUNDOFF, SLACK, Precision

FEW = 10  # rows that near-ties may change in a table of any size, beside the shares ``excused`` and ``near_ties``
INTERVAL = 0.1  # for statistics that follow from the tables: the share of their confidence interval's width


@dataclass(frozen=True)
class Tolerances:
    """The limits for one ``extraction.precision``.

    Attributes:
        coefficient: for coefficients, relative to the number itself.
        tie: for coefficients that may change places, relative to the larger one.
        noise: for coefficients, as a share of the layer's largest one: a score near zero is a difference of large
            terms, and its error is relative to them.
        probability: for probabilities, relative; for log-probabilities that may change places, absolute.
        count: for how often a key fires, relative: a coefficient next to zero may have either sign.
        excused: the largest share of a table's rows that near-ties may change between two runs.
        near_ties: the largest share of a table's recomputed rows that may hang on near-ties, if a verdict rests on it.
    """

    coefficient: float
    tie: float
    noise: float
    probability: float
    count: float
    excused: float
    near_ties: float


def of(precision: Precision) -> Tolerances:
    """Return the limits for a precision."""
    if precision == "float32":
        return Tolerances(
            SLACK[precision], tie=1e-5, noise=1e-5, probability=1e-4, count=0.002, excused=0.01, near_ties=0.01
        )
    unit = ROUNDOFF[precision]
    shares = (0.02, 0.25, 0.1) if precision == "tf32" else (0.05, 0.75, 0.25)
    return Tolerances(SLACK[precision], 8 * unit, 8 * unit, 64 * unit, *shares)
