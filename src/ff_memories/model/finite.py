"""Refuse a model whose numbers overflow, and say which ones."""

import torch

from ff_memories.base.errors import UserError

HINT = "its weights are too large: use another checkpoint"


def require(what: str, *numbers: torch.Tensor) -> None:
    """Raise ``UserError`` if numbers are infinite or NaN; ``what``: their name, in the plural."""
    for tensor in numbers:
        if not torch.isfinite(tensor).all():
            raise UserError(f"{what} overflow in {str(tensor.dtype).removeprefix('torch.')}", HINT)
