"""Matrix products and attention: torch's own, or numpy's where a run computes portably on a CPU.

torch multiplies with MKL, whose kernels differ between vendors; numpy multiplies with OpenBLAS, which can be held to
one kernel on every CPU (``arithmetic``). On CPUs with AVX2 both are equally fast.

A weight in bfloat16 says that both factors are (``base.precision``). A GPU multiplies them as they are and sums in
float32. On a CPU torch would round the sums too, so the rounded factors are multiplied as float32 numbers: portably
at the speed of float32; otherwise by the CPU's bfloat16 instructions, where it has them. Either way the products are
exact and the sums are float32.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F

from ff_memories.base.hardware import arithmetic


def linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Return x W^T + b (rows, n) for x (rows, d), W (n, d) and b (n,); ``out``: memory to put it in."""
    if weight.dtype == torch.bfloat16:
        x = x.to(torch.bfloat16)
        if x.device.type != "cpu":
            return _summed_in_float32(x, weight, bias, out)
        x, weight = x.float(), weight.float()
        if not _portable(x):
            with _bfloat16_instructions():
                return _linear(x, weight, bias, out)
    if not _portable(x):
        return _linear(x, weight, bias, out)
    if out is None:
        out = x.new_empty(len(x), len(weight))
    np.matmul(x.numpy(), weight.numpy().T, out=out.numpy())
    return out if bias is None else out.add_(bias)


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor | None) -> torch.Tensor:
    """Return ``linear`` as torch computes it."""
    if out is None:
        return F.linear(x, weight, bias)
    return torch.mm(x, weight.t(), out=out) if bias is None else torch.addmm(bias, x, weight.t(), out=out)


@contextmanager
def _bfloat16_instructions() -> Iterator[None]:
    """Let torch multiply float32 numbers by the CPU's bfloat16 instructions, which lose nothing of rounded factors.

    The setting is the process's: a thread that multiplies other float32 numbers meanwhile would have them rounded.
    """
    setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before, setting.fp32_precision = setting.fp32_precision, "bf16"
    try:
        yield
    finally:
        setting.fp32_precision = before


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    cap: float | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """Return causal attention's output for queries, keys and values (sentences, heads, rows, d_head) each.

    Args:
        q, k, v: keys and values may have fewer heads, each shared by as many queries' heads (grouped-query attention).
        scale: of the scores; ``None``: one over the square root of d_head.
        cap: scores are ``cap * tanh(score / cap)`` (Gemma 2).
        window: how many tokens a token looks at, itself included; ``None``: at all before it.
    """
    kind, rows = q.dtype, q.shape[2]
    width = rows if window is None else min(window, rows)
    if cap is None and width == rows and not _portable(q):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=k.shape[1] != q.shape[1])
    if kind == torch.bfloat16:
        q, k, v = q.float(), k.float(), v.float()
    if k.shape[1] != q.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    multiply = _numpy_matmul if _portable(q) else torch.matmul
    scores = multiply(q, k.transpose(2, 3)).mul_(q.shape[3] ** -0.5 if scale is None else scale)
    if cap is not None:
        scores = scores.div_(cap).tanh_().mul_(cap)
    every = torch.ones(rows, rows, dtype=torch.bool, device=q.device)
    scores.masked_fill_(every.triu(1) | every.tril(-width) if width < rows else every.triu_(1), -torch.inf)
    return multiply(torch.softmax(scores, -1).to(kind).to(v.dtype), v).to(kind)


def _summed_in_float32(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor | None
) -> torch.Tensor:
    """Return ``linear`` of bfloat16 factors in float32, which torch has for GPUs alone."""
    if out is None:
        out = x.new_empty(len(x), len(weight), dtype=torch.float32)
    if bias is None:
        return torch.mm(x, weight.t(), out_dtype=torch.float32, out=out)
    return torch.addmm(bias, x, weight.t(), out_dtype=torch.float32, out=out)


def _numpy_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.matmul(a.numpy(), b.numpy()))


def widened(x: torch.Tensor) -> torch.Tensor:
    """Return numbers in float32, or wider as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _portable(x: torch.Tensor) -> bool:
    return arithmetic.portable() and x.device.type == "cpu"
