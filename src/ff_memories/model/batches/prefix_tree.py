"""Prefixes that begin alike, as a forest: every distinct prefix is one row, and runs once.

A row is a prefix, its parent the prefix without its last token. A row's keys and values of attention depend on the
prefix alone, so whatever begins with the same tokens shares them. Rows are sorted by how many layers they run through:
those that a layer still needs come first, and a slice is all it takes to leave the others behind.

An example: "a b" is read at layer 1 and "a c d" at layer 2. As sentences they are 3 + 4 rows, the start token s first;
a forest has 5. A row runs as far as it, or what continues it, is read; rows read where they end come first:

    row            0: s a c d   1: s   2: s a   3: s a c   4: s a b
    runs through   2 layers     2      2        2          1, so layer 2 has the first 4 rows

>>> a, b, c, d, s = 7, 5, 8, 9, 2
>>> paths = [np.array([a, b]), np.array([a, c, d])]
>>> tree = PrefixTree(paths, path=np.array([0, 1]), position=np.array([2, 3]), layer=np.array([1, 2]), start=s)
>>> tree.tokens.tolist(), tree.row.tolist(), [tree.level_rows[1], tree.level_rows[2]]
([9, 2, 7, 8, 5], [4, 0], [5, 4])
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from ff_memories.corpus.dictionary import EOS
from ff_memories.model.matmul import USUAL, Paths, Scoring, attention_along

WIDTH = 8  # paths are padded at their end to a multiple of it: causal attention never looks there


def common_prefixes(paths: list[np.ndarray]) -> np.ndarray:
    """Return (n,) how many tokens each path shares with the one before it; 0 for the first."""
    out = np.zeros(len(paths), dtype=np.int64)
    for i in range(1, len(paths)):
        n = min(len(paths[i - 1]), len(paths[i]))
        differs = paths[i - 1][:n] != paths[i][:n]
        out[i] = differs.argmax() if differs.any() else n
    return out


def cut(paths: list[np.ndarray], budget: int, forests: bool = True) -> Iterator[range]:
    """Cut paths in lexicographic order into forests of at most ``budget`` rows; a longer path stands alone.

    ``forests``: whether paths share what they begin with; else every path has all its rows.
    """
    shared = common_prefixes(paths) if forests else np.zeros(len(paths), dtype=np.int64)
    first, rows = 0, 0
    for i, path in enumerate(paths):
        new = len(path) - shared[i]
        if i > first and (rows + new > budget):
            yield range(first, i)
            first, rows = i, 0
        rows += new if i > first else len(path)
    if paths:
        yield range(first, len(paths))


@dataclass(frozen=True)
class Level:
    """A forest as one layer sees it, in the place of a ``Batch``."""

    needed: int  # how many of the rows here, the first ones, have an output here
    groups: tuple[Paths, ...]

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scoring: Scoring = USUAL) -> torch.Tensor:
        """Return attention's output (needed, heads, d_head); arguments as of ``decoder.Batch.attention``."""
        return attention_along(q, k, v, self.groups, self.needed, scoring)


class PrefixTree:
    """The rows of paths in lexicographic order, which are token ids without the start token that each begins with.

    ``path``, ``position``, ``layer``: the reads, (reads,) each: which row (0 at the start token) of which path is
    wanted at which layer, from 1. Rows run as far as they or what follows them are read. ``row``: (reads,) of each.
    """

    def __init__(
        self,
        paths: list[np.ndarray],
        path: np.ndarray,
        position: np.ndarray,
        layer: np.ndarray,
        device: torch.device | str = "cpu",
        start: int = EOS,
    ):
        lengths = np.array([len(p) + 1 for p in paths])
        shape = len(paths), -(-int(lengths.max()) // WIDTH) * WIDTH
        column = np.arange(shape[1])
        inside = column < lengths[:, None]
        shared = common_prefixes(paths) + 1
        shared[0] = 0
        self._own = inside & (column >= shared[:, None])
        owner = np.maximum.accumulate(np.where(self._own, np.arange(shape[0])[:, None], 0), axis=0)
        number = np.zeros(shape, dtype=np.int64)
        number[self._own] = np.arange(self._own.sum())
        node = number[owner, column]
        # how deep a row runs: as the deepest read at it or behind it
        reads = np.zeros(shape, dtype=np.int64)
        np.maximum.at(reads, (path, position), layer)
        behind = np.maximum.accumulate(reads[:, ::-1], axis=1)[:, ::-1]
        depth = np.zeros(int(self._own.sum()), dtype=np.int64)
        own_reads = np.zeros_like(depth)
        np.maximum.at(depth, node[inside], behind[inside])
        np.maximum.at(own_reads, node[inside], reads[inside])
        order = np.lexsort((own_reads < depth, -depth))
        index = np.argsort(order)
        self._node = np.where(inside, index[node], 0)
        depth = depth[order]
        self.row, self.device = self._node[path, position], device
        self.depth = int(depth[0])  # how many layers the deepest rows run through
        # how many rows, the first ones, run through each layer, from 1
        self.level_rows = [int((depth >= n).sum()) for n in range(self.depth + 2)]
        ends = (own_reads[order] == depth).astype(np.int64)  # rows read at the last layer they run through
        self._ends = [int(ends[depth == n].sum()) for n in range(self.depth + 1)]
        tokens = np.zeros(shape, dtype=np.int64)
        tokens[:, 0] = start
        tokens[inside & (column > 0)] = np.concatenate(paths) if len(paths) else 0
        first = np.flatnonzero(self._own.ravel())[order]
        self.tokens = torch.from_numpy(tokens.ravel()[first]).to(device)
        self.positions = torch.from_numpy(first % shape[1]).to(device)

    def level(self, layer: int) -> Level:
        """Return what ``layer``, from 1, sees: rows needed further up or read here have an output."""
        needed = self.level_rows[layer + 1] + self._ends[layer]
        wanted = self._own & (self._node < needed)
        ends = np.where(wanted.any(1), wanted.shape[1] - wanted[:, ::-1].argmax(1), 0)
        widths, groups = -(-ends // WIDTH) * WIDTH, []
        send = partial(torch.as_tensor, device=self.device)
        for width in np.unique(widths[widths > 0]):
            member = widths == width
            node, want = self._node[member, :width], wanted[member, :width]
            node = np.where(np.arange(width) < ends[member, None], node, 0)
            groups.append((send(node), send(np.flatnonzero(want.ravel())), send(node[want])))
        return Level(needed, tuple(groups))


class PlainPaths:
    """Paths as the sentences of a plain batch, in the place of a ``PrefixTree``, for layers that take no forest.

    Paths need no order. ``batch``, ``first``: of ``LanguageModel.pack_unsorted``.
    """

    def __init__(self, batch: Any, first: np.ndarray, path: np.ndarray, position: np.ndarray, layer: np.ndarray):
        self.batch, self.row, self.depth = batch, first[path] + position, int(layer.max())
        self.level_rows = [len(batch.tokens)] * (self.depth + 2)  # all run through every layer

    def level(self, layer: int) -> Any:
        """Return what ``layer`` sees: the whole batch."""
        return self.batch
