"""Matrix products and attention: torch's own, or numpy's where a run computes portably on a CPU.

torch multiplies with MKL, whose kernels differ between vendors; numpy multiplies with OpenBLAS, which can be held to
one kernel on every CPU (``arithmetic``). On CPUs with AVX2 both are equally fast.
"""

import numpy as np
import torch
import torch.nn.functional as F

from ff_memories.base import arithmetic


def linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Return x W^T + b (rows, n) for x (rows, d), W (n, d) and b (n,); ``out``: memory to put it in."""
    if not _portable(x):
        if out is None:
            return F.linear(x, weight, bias)
        return torch.mm(x, weight.t(), out=out) if bias is None else torch.addmm(bias, x, weight.t(), out=out)
    if out is None:
        out = x.new_empty(len(x), len(weight))
    np.matmul(x.numpy(), weight.numpy().T, out=out.numpy())
    return out if bias is None else out.add_(bias)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return causal attention's output for queries, keys and values (sentences, heads, rows, d_head) each."""
    if not _portable(q):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    rows = q.shape[2]
    scores = torch.from_numpy(np.matmul(q.numpy(), k.numpy().swapaxes(2, 3))).mul_(q.shape[3] ** -0.5)
    scores.masked_fill_(torch.ones(rows, rows, dtype=torch.bool).triu_(1), -torch.inf)
    return torch.from_numpy(np.matmul(torch.softmax(scores, -1).numpy(), v.numpy()))


def _portable(x: torch.Tensor) -> bool:
    return arithmetic.portable() and x.device.type == "cpu"
