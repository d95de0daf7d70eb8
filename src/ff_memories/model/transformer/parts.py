"""Find the parts of a loaded model: its blocks, its matrices, the scale of a norm, its attention function."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from ff_memories.base.errors import UserError


def layers_of(model: nn.Module, depth: int) -> tuple[str, nn.ModuleList]:
    """Return the name and the list of a model's blocks. Raises ``UserError`` where there is none of that depth."""
    found = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList)
        and len(module) == depth
        and len({type(part) for part in module}) == 1
        and any(matrix(part) for part in module[0].modules())
    ]
    if not found:
        raise UserError(f"{type(model).__name__}: no list of {depth} layers in it")
    return found[-1]


def matrix(module: nn.Module) -> tuple[int, int] | None:
    """Return (inputs, outputs) of a module that multiplies by a matrix; ``None`` for others."""
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    return (module.nx, module.nf) if isinstance(module, Conv1D) else None


def scale_of(norm: Any, width: int) -> torch.Tensor:
    """Return the scale (d,) of a norm; without one, ones.

    Raises:
        UserError: its scale is neither its weight nor one plus that.
    """
    given = getattr(norm, "weight", None)
    weight = torch.ones(width) if given is None else given.detach()
    x = torch.full_like(weight, 1000.0)
    x[1::2] *= -len(x[::2]) / len(x[1::2])  # without a mean, whatever the width
    scale = (norm(x[None])[0] - norm(-x[None])[0]) / 2 * x.float().square().mean().sqrt() / x
    for candidate in (weight, 1 + weight):
        if torch.allclose(candidate.float(), scale.float(), rtol=1e-2 if weight.dtype == torch.bfloat16 else 1e-4):
            return candidate
    raise UserError(f"{type(norm).__name__}: its scale is neither its weight nor one plus its weight")


@contextmanager
def attention(model: Any, name: str | None) -> Iterator[None]:
    """Let a model compute with an attention function; ``None``: with its own."""
    before = model.config._attn_implementation
    if name is None or name == before:
        yield
        return
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(before)
