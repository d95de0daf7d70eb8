"""Sentences padded behind, for `transformers` models that take no attention function of ours.

Causal attention never looks at what stands behind a token, so padding there needs no mask and changes no number.
Sentences of a batch come by length: those of like length run together, in bands, and little is padded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch

from ff_memories.model.batches.prefix_tree import WIDTH
from ff_memories.model.decoder import Batch


@dataclass(frozen=True)
class Band:
    """Sentences of a batch that run together.

    Attributes:
        rows: which rows of the batch are theirs.
        place: (rows,) where these lie in the band, sentence after sentence.
        shape: (sentences, tokens of each with its padding).
    """

    rows: slice
    place: torch.Tensor
    shape: tuple[int, int]

    def spread(self, x: torch.Tensor) -> torch.Tensor:
        """Return (sentences, tokens, ...) of a batch's (rows, ...), zero where a sentence is over."""
        padded = x.new_zeros(self.shape[0] * self.shape[1], *x.shape[1:])
        padded[self.place] = x[self.rows]
        return padded.unflatten(0, self.shape)

    def gather(self, padded: torch.Tensor) -> torch.Tensor:
        """Return the band's rows of (sentences, tokens, n) as (rows, n)."""
        return padded.flatten(0, -2)[self.place]


def bands(batch: Batch, longest: int) -> list[Band]:
    """Cut a batch into bands whose tokens are a multiple of ``WIDTH``, but at most ``longest``."""
    out = []
    for steps, together in groupby(batch.groups, key=lambda group: -(-group[2] // WIDTH)):
        groups = list(together)
        start, last = groups[0][0], groups[-1]
        rows, tokens = slice(start, last[0] + last[1] * last[2]), max(last[2], min(steps * WIDTH, longest))
        positions = batch.positions[rows]
        place = ((positions == 0).cumsum(0) - 1) * tokens + positions
        out.append(Band(rows, place, (sum(n for _, n, _ in groups), tokens)))
    return out


class PlainPaths:
    """Paths as the sentences of a plain batch, in the place of a ``PrefixTree``, for layers that take no forest.

    Args:
        paths, path, position, layer: as of ``PrefixTree``; paths need no order.
        pack: makes a batch of sentences that come by length.

    Attributes:
        row: (reads,) the row of each read.
        depth: how many layers are read.
    """

    def __init__(
        self,
        paths: list[np.ndarray],
        path: np.ndarray,
        position: np.ndarray,
        layer: np.ndarray,
        pack: Callable[[Sequence[np.ndarray]], Batch],
    ):
        rows = np.array([len(p) + 1 for p in paths])
        order = np.argsort(rows, kind="stable")
        first = np.empty_like(rows)
        first[order] = np.cumsum(rows[order]) - rows[order]
        self.batch = pack([paths[i] for i in order])
        self.row, self.depth = first[path] + position, int(layer.max())

    def level_rows(self, layer: int) -> int:
        """Return how many rows run through ``layer``: all."""
        return len(self.batch.tokens)

    def level(self, layer: int) -> Batch:
        """Return what ``layer`` sees: the whole batch."""
        return self.batch
