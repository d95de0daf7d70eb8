"""Matrix products and attention: torch's own, or numpy's where a run computes portably on a CPU.

torch multiplies with MKL, whose kernels differ between vendors; numpy multiplies with OpenBLAS, which can be held to
one kernel on every CPU (``arithmetic``). On CPUs with AVX2 both are equally fast.

A weight in bfloat16 says that both factors are (``base.arithmetic``). A GPU multiplies them as they are and sums in
float32. On a CPU torch would round the sums too, so the rounded factors are multiplied as float32 numbers: portably
at the speed of float32; otherwise by the CPU's bfloat16 instructions, where it has them. Either way the products are
exact and the sums are float32.

Attention runs over the rows of all tokens of a batch; the batch says which belong together.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ff_memories.base import arithmetic
from ff_memories.base.errors import UserError

Paths = tuple[Tensor, Tensor, Tensor]  # rows (paths, width); which of them, flat; the rows they are
PARTS_OF_BIAS = 8  # columns: three hold a bias, and products are fastest where rows are multiples of 16 bytes
ON_CARD = torch._C._dispatch_has_kernel_for_dispatch_key("aten::_efficient_attention_forward", "CUDA")


class Scoring(NamedTuple):
    """How attention scores the tokens that a token looks at."""

    scale: float | None = None  # ``None``: one over the square root of d_head
    cap: float | None = None  # scores are ``cap * tanh(score / cap)`` (Gemma 2)
    window: int | None = None  # how many tokens a token looks at, itself included; ``None``: at all before it


USUAL = Scoring()


def relu_linear(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor | None = None) -> Tensor:
    """Return ReLU(x W^T + b) (rows, n); a GPU applies both as it writes a product of float32 numbers."""
    if x.is_cuda and weight.dtype == torch.float32:
        return torch._addmm_activation(bias, x, weight.t(), out=out)
    return torch.relu_(linear(x, weight, bias, out))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Return x W^T + b (rows, n) for x (rows, d), W (n, d), perhaps ``with_bias``, and b (n,).

    ``out``: memory to put it in.
    """
    if rounded := weight.dtype == torch.bfloat16:
        if weight.shape[1] > x.shape[1]:
            x, bias = _with_ones(x, weight.shape[1]), None
        x = x.to(torch.bfloat16)
        if x.device.type != "cpu":  # torch sums such products in float32 on GPUs alone
            out = x.new_empty(len(x), len(weight), dtype=torch.float32) if out is None else out
            torch.mm(x, weight.t(), out_dtype=torch.float32, out=out)
            return out if bias is None else out.add_(bias)
        x, weight = x.float(), weight.float()
    if not _portable(x):
        with _bfloat16_instructions() if rounded else nullcontext():
            if out is None:
                return F.linear(x, weight, bias)
            return torch.mm(x, weight.t(), out=out) if bias is None else torch.addmm(bias, x, weight.t(), out=out)
    out = x.new_empty(len(x), len(weight)) if out is None else out
    np.matmul(x.numpy(), weight.numpy().T, out=out.numpy())
    return out if bias is None else out.add_(bias)


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


def attention(q: Tensor, k: Tensor, v: Tensor, scoring: Scoring = USUAL) -> Tensor:
    """Return causal attention's output for queries, keys and values (sentences, heads, rows, d_head) each.

    Keys and values may have fewer heads, each shared by as many queries' heads (grouped-query attention).
    """
    (scale, cap, window), kind, rows = scoring, q.dtype, q.shape[2]
    width = rows if window is None else min(window, rows)
    if cap is None and width == rows and not _portable(q):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=k.shape[1] != q.shape[1])
    if kind == torch.bfloat16:
        q, k, v = q.float(), k.float(), v.float()
    if k.shape[1] != q.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = matmul(q, k.transpose(2, 3)).mul_(q.shape[3] ** -0.5 if scale is None else scale)
    if cap is not None:
        scores = scores.div_(cap).tanh_().mul_(cap)
    every = torch.ones(rows, rows, dtype=torch.bool, device=q.device)
    scores.masked_fill_(every.triu(1) | every.tril(-width) if width < rows else every.triu_(1), -torch.inf)
    return matmul(torch.softmax(scores, -1).to(kind).to(v.dtype), v).to(kind)


def attention_along(
    q: Tensor, k: Tensor, v: Tensor, groups: Sequence[Paths], rows: int, scoring: Scoring = USUAL
) -> Tensor:
    """Return attention's output (rows, heads, d_head) of rows that paths lead to, whatever is behind a path's end.

    For queries, keys and values (rows or more, heads, d_head) each; keys and values may have fewer heads. Every row is
    wanted once among the ``groups`` of paths, whose width is equal within each.
    """
    out = v.new_empty(rows, q.shape[1], v.shape[2])
    for paths, index, row in groups:
        q_, k_, v_ = (x.index_select(0, paths.flatten()).unflatten(0, paths.shape).transpose(1, 2) for x in (q, k, v))
        mixed = attention(q_, k_, v_, scoring).transpose(1, 2).flatten(0, 1)
        out.index_copy_(0, row, mixed.index_select(0, index))
    return out


def attention_of_sentences(
    q: Tensor, k: Tensor, v: Tensor, ends: Tensor, longest: int, scoring: Scoring = USUAL
) -> Tensor:
    """Return attention's output (rows, heads, d_head) of sentences in one call of a GPU's kernel, which pads nothing.

    It is the kernel of ``scaled_dot_product_attention`` that takes float32, so the back end does not change with the
    type, and nothing is planned anew for every shape, as cuDNN does.

    Args:
        q, k, v: (rows, heads, d_head) each; keys and values may have fewer heads.
        ends: (sentences + 1,) int32, 0 and the row behind each sentence.
        longest: rows of the longest sentence.
        scoring: without a cap.
    """
    if k.shape[1] != q.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    causal, width = 1, None if scoring.window is None or scoring.window >= longest else scoring.window
    q, k, v = q[None], k[None], v[None]
    return torch.ops.aten._efficient_attention_forward(
        q, k, v, None, ends, ends, longest, longest, 0.0, causal, scale=scoring.scale, window_size=width
    )[0][0]


def takes_sentences(q: Tensor, v: Tensor, scoring: Scoring = USUAL) -> bool:
    """Say whether ``attention_of_sentences`` takes queries and values (rows, heads, d_head)."""
    whole = not q.shape[2] % 8 and not v.shape[2] % 8
    return ON_CARD and q.is_cuda and whole and scoring.cap is None and q.dtype in (torch.float32, torch.bfloat16)


def with_bias(weight: Tensor, bias: Tensor) -> Tensor:
    """Return a weight (n, d) as ``linear`` takes it fastest: in bfloat16 on a GPU (n, d + 8), the bias in its columns.

    Three numbers in bfloat16 add up to one in float32, so a product with ones adds the same bias.
    """
    if not (weight.is_cuda and weight.dtype == torch.bfloat16):
        return weight
    columns = torch.zeros(PARTS_OF_BIAS, len(weight), device=weight.device, dtype=weight.dtype)
    left = bias.float()
    for part in columns[:3]:
        part.copy_(left)
        left = left - part
    rows_first = weight.is_contiguous()
    return torch.cat([weight, columns.t()], 1) if rows_first else torch.cat([weight.t(), columns]).t()


def _with_ones(x: Tensor, columns: int) -> Tensor:
    """Return (rows, columns) bfloat16: x, then ones."""
    out = x.new_empty(len(x), columns, dtype=torch.bfloat16)
    out[:, : x.shape[1]] = x
    out[:, x.shape[1] :] = 1
    return out


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return the products of two stacks of matrices."""
    return torch.from_numpy(np.matmul(a.numpy(), b.numpy())) if _portable(a) else a @ b


def widened(x: Tensor) -> Tensor:
    """Return numbers in float32, or wider as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def require_finite(what: str, *numbers: Tensor) -> None:
    """Raise ``UserError`` if numbers are infinite or NaN; ``what``: their name, in the plural."""
    for tensor in numbers:
        if not torch.isfinite(tensor).all():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise UserError(f"{what} overflow in {kind}", "its weights are too large: use another checkpoint")


def _portable(x: Tensor) -> bool:
    return arithmetic.portable() and x.device.type == "cpu"
