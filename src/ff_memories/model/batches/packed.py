"""Attention of `transformers` models over sentences without padding, or over a forest of prefixes.

`transformers` gives an attention function the queries, keys and values of all rows, after rotary positions. Which rows
belong together is what the batch knows: ``over`` names it for the layers that run meanwhile.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

from ff_memories.model.batches.prefix_tree import Level
from ff_memories.model.decoder import Batch
from ff_memories.model.products import attention

NAME = "ff_memories"  # of the attention function, as `transformers` knows it


class _Now(threading.local):
    rows: Batch | Level | None = None
    factor: torch.dtype | None = None


_now = _Now()


@contextmanager
def over(rows: Batch | Level, factor: torch.dtype | None = None) -> Iterator[None]:
    """Let attention of this thread run over a batch, or over a layer's part of a forest.

    ``factor``: the type that queries, keys and values are rounded to; ``None``: they stay as they are.
    """
    before = _now.rows, _now.factor
    _now.rows, _now.factor = rows, factor
    try:
        yield
    finally:
        _now.rows, _now.factor = before


def packed_attention(
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
    """Return attention's output (1, rows, heads, d_head) for (1, heads, rows, d_head); one call per length."""
    q, k, v = (x[0].transpose(0, 1).to(_now.factor or x.dtype) for x in (query, key, value))  # (rows, heads, d_head)
    out, rows = query.new_zeros(*q.shape[:2], v.shape[-1]), _now.rows
    if rows is None:
        raise RuntimeError("attention outside of `over`")
    mix = partial(attention, scale=scaling, cap=softcap, window=sliding_window)
    if isinstance(rows, Batch):
        for start, n, t in rows.groups:
            part = slice(start, start + n * t)
            q_, k_, v_ = (x[part].unflatten(0, (n, t)).transpose(1, 2) for x in (q, k, v))
            out[part].view(n, t, *out.shape[1:]).copy_(mix(q_, k_, v_).transpose(1, 2))
    else:
        for paths, place, row in rows.groups:
            along = (x.index_select(0, paths.flatten()).unflatten(0, paths.shape).transpose(1, 2) for x in (q, k, v))
            q_, k_, v_ = along
            found = mix(q_, k_, v_).transpose(1, 2).flatten(0, 1)
            out.index_copy_(0, row, found.index_select(0, place).to(out.dtype))
    return out[None], None


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, lambda *args, **kwargs: None)
