"""The precision that a run declares (``extraction.precision``): how the factors of matrix products are rounded.

``float32`` rounds nothing, ``tf32`` keeps 11 significant bits of each factor and ``bfloat16`` 8. Sums of products,
norms, softmax, residuals and results are always float32.
"""

from typing import Literal

Precision = Literal["float32", "tf32", "bfloat16"]
ROUNDOFF: dict[Precision, float] = {"float32": 2.0**-24, "tf32": 2.0**-11, "bfloat16": 2.0**-8}  # of one factor

# Two coefficients this close, relative to the larger one, may be the same number computed in different batches or by
# different kernels. The limit is far above the noise (``audit.tolerances``).
SLACK: dict[Precision, float] = {"float32": 1e-4, "tf32": 16 * ROUNDOFF["tf32"], "bfloat16": 16 * ROUNDOFF["bfloat16"]}
