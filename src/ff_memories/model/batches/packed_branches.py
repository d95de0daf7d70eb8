"""Attention of `transformers` models over ``Branches``: that of ``packed`` for prefixes, one row for each branch."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

from ff_memories.model.batches import packed
from ff_memories.model.batches.branches import Branches
from ff_memories.model.transformer.parts import attention

NAME = "ff_memories_branches"  # of the attention function, as `transformers` knows it


def branched_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Return attention's output (1, rows, heads, d_head) for (1, heads, rows, d_head), as ``packed_attention``."""
    rows = packed._now.rows
    if not isinstance(rows, Branches):
        raise RuntimeError("attention over something else than branches")
    own, factor = len(rows.batch.tokens), packed._now.factor
    with packed.over(rows.batch, factor):
        whole, _none = packed.packed_attention(
            module,
            *(x[:, :, :own] for x in (query, key, value)),
            attention_mask,
            scaling,
            dropout,
            softcap,
            sliding_window,
        )
    q, k, v = (x[0].transpose(0, 1).to(factor or x.dtype) for x in (query, key, value))
    branched = rows.attention(q[own:], k, v, scaling, softcap, sliding_window).to(whole.dtype)
    return torch.cat([whole, branched[None]], 1), None


AttentionInterface.register(NAME, branched_attention)
AttentionMaskInterface.register(NAME, lambda *args, **kwargs: None)


@contextlib.contextmanager
def attending(model: Any) -> Iterator[None]:
    """Let a model's attention take ``Branches``; one that takes no function of ours keeps its own."""
    with attention(model, NAME if model.config._attn_implementation == packed.NAME else None):
        yield
