"""Attention of `transformers` models over the rows of a batch: sentences, a forest of prefixes, or branches.

`transformers` gives an attention function the queries, keys and values of all rows, after rotary positions. Which rows
belong together is what the batch knows: ``over`` names it for the layers that run meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

from ff_memories.model.decoder import Rows
from ff_memories.model.matmul import Scoring

NAME = "ff_memories"  # of the attention function, as `transformers` knows it
_now: ContextVar[tuple[Rows | None, torch.dtype | None]] = ContextVar("now", default=(None, None))


@contextmanager
def over(rows: Rows, factor: torch.dtype | None = None) -> Iterator[None]:
    """Let attention of this thread run over a batch, or over a layer's part of a forest.

    ``factor``: the type that queries, keys and values are rounded to; ``None``: they stay as they are.
    """
    before = _now.set((rows, factor))
    try:
        yield
    finally:
        _now.reset(before)


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
    """Return attention's output (1, rows, heads, d_head) for (1, heads, rows, d_head), as the batch computes it."""
    rows, factor = _now.get()
    if rows is None:
        raise RuntimeError("attention outside of `over`")
    q, k, v = (x[0].transpose(0, 1).to(factor or x.dtype) for x in (query, key, value))  # (rows, heads, d_head)
    mixed = rows.attention(q, k, v, Scoring(scaling, softcap, sliding_window)).to(query.dtype)
    return F.pad(mixed, (0, 0, 0, 0, 0, len(q) - len(mixed)))[None], None  # a forest's rows behind those needed


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, lambda *args, **kwargs: None)
