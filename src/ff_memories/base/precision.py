"""The arithmetic that a run declares (``extraction.precision``): what factors of matrix products are rounded to.

``float32`` rounds nothing, ``tf32`` keeps 11 significant bits of each factor and ``bfloat16`` 8. Whatever the factors
are, products are summed in float32, and norms, softmax, residuals and results are float32.
"""

from typing import Literal

Precision = Literal["float32", "tf32", "bfloat16"]
ROUNDOFF: dict[Precision, float] = {"float32": 2.0**-24, "tf32": 2.0**-11, "bfloat16": 2.0**-8}  # of one factor

# Two coefficients this close, relative to the larger one, may be the same number computed twice: in other batches, by
# other kernels. It lies far above the noise (``audit.tolerances``).
SLACK: dict[Precision, float] = {"float32": 1e-4, "tf32": 16 * ROUNDOFF["tf32"], "bfloat16": 16 * ROUNDOFF["bfloat16"]}
