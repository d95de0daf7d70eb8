"""Attention of `transformers` models over the rows of a batch: sentences, a forest of prefixes, or branches.

`transformers` gives an attention function the queries, keys and values of all rows, after rotary positions. Which rows
belong together is what the batch knows: ``over`` names it for the layers that run meanwhile.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

from ff_memories.model.matmul import Scoring

NAME = "ff_memories"  # of the attention function, as `transformers` knows it


class Rows(Protocol):
    """The rows of a ``Batch``, of a forest's ``Level`` or of ``Branches``."""

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scoring: Scoring) -> torch.Tensor:
        """Return attention's output (rows, heads, d_head); arguments as of ``decoder.Batch.attention``."""


class _Now(threading.local):
    rows: Rows | None = None
    factor: torch.dtype | None = None


_now = _Now()


@contextmanager
def over(rows: Rows, factor: torch.dtype | None = None) -> Iterator[None]:
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
    """Return attention's output (1, rows, heads, d_head) for (1, heads, rows, d_head), as the batch computes it."""
    if _now.rows is None:
        raise RuntimeError("attention outside of `over`")
    q, k, v = (x[0].transpose(0, 1).to(_now.factor or x.dtype) for x in (query, key, value))  # (rows, heads, d_head)
    mixed = _now.rows.attention(q, k, v, Scoring(scaling, softcap, sliding_window)).to(query.dtype)
    return F.pad(mixed, (0, 0, 0, 0, 0, len(q) - len(mixed)))[None], None  # a forest's rows behind those needed


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, lambda *args, **kwargs: None)
