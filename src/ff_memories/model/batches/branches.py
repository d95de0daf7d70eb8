"""Prefixes and changed versions of their last tokens: every version is one row, and what lies before it runs once.

A change at a prefix's last token reaches nothing but that token in the layers above: earlier tokens never look at it.
So a changed version is one row, which attends to the keys and values of its prefix's earlier tokens and to its own.
"""

import torch

from ff_memories.model.decoder import Batch
from ff_memories.model.matmul import USUAL, Scoring, matmul

GATHERED = 1 << 24  # numbers of keys, and of values, that are gathered at once


class Branches:
    """Prefixes as a batch, and branches behind it: one row each.

    Args:
        batch: the prefixes, by length.
        base: (branches,) which prefix each branch is of.

    Attributes:
        tokens, positions: (rows,) int64, as in a ``Batch``; a branch has those of its prefix's last token.
    """

    def __init__(self, batch: Batch, base: torch.Tensor):
        self.batch = batch
        lengths = torch.cat([torch.full((n,), rows) for _, n, rows in batch.groups]).to(base.device)
        again = lambda x: torch.cat([x, x[batch.last[base].to(x.device)]])
        self.tokens, self.positions = again(batch.tokens), again(batch.positions)
        before = torch.arange(int(lengths.max()) - 1, device=base.device)
        first = batch.last - lengths + 1
        self._seen = before < (lengths - 1)[base, None]  # (branches, width)
        self._behind = (lengths - 1)[base, None] - before  # how far a token is behind the branch
        self._rows = torch.where(self._seen, first[base, None] + before, 0)

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scoring: Scoring = USUAL) -> torch.Tensor:
        """Return attention's output (rows, heads, d_head) of the prefixes' rows and of the first branches.

        Arguments as of ``decoder.Batch.attention``.
        """
        own = len(self.batch.tokens)
        prefixes = self.batch.attention(q[:own], k[:own], v[:own], scoring)
        return torch.cat([prefixes, self._branched(q[own:], k, v, scoring)])

    def _branched(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scoring: Scoring) -> torch.Tensor:
        """Return attention's output (branches, heads, d_head) for the branches' queries and all keys and values."""
        (scale, cap, window), own, kind = scoring, len(self.batch.tokens), q.dtype
        q, k, v = (x.float() if x.dtype == torch.bfloat16 else x for x in (q, k, v))
        shared = q.unflatten(1, (k.shape[1], -1))  # (branches, heads of keys, queries that share one, d_head)
        out = q.new_empty(len(q), q.shape[1], v.shape[2])
        width, factor = self._rows.shape[1] + 1, q.shape[2] ** -0.5 if scale is None else scale
        for part in torch.arange(len(q), device=q.device).split(max(1, GATHERED // (width * k[0].numel()))):
            rows = torch.cat([self._rows[part], own + part[:, None]], 1)
            near = self._behind[part] < (window or width)
            seen = torch.cat([self._seen[part] & near, self._seen.new_ones(len(part), 1)], 1)
            scores = matmul(shared[part], k[rows].permute(0, 2, 3, 1)) * factor
            if cap is not None:
                scores = cap * torch.tanh(scores / cap)
            shares = torch.softmax(scores.masked_fill(~seen[:, None, None], -torch.inf), -1)
            out[part] = matmul(shares, v[rows].transpose(1, 2)).flatten(1, 2)
        return out.to(kind)
