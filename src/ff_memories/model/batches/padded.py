"""Sentences padded behind, for `transformers` models that take no attention function of ours.

Causal attention never looks at what stands behind a token, so padding there needs no mask and changes no number.
Sentences of a batch come by length: those of like length run together, in bands, and little is padded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ff_memories.model.batches.prefix_tree import WIDTH
from ff_memories.model.decoder import Batch


@dataclass(frozen=True)
class Band:
    """Sentences of a batch that run together.

    Attributes:
        rows: (rows,) which rows of the batch are theirs.
        place: (rows,) where these lie in the band, sentence after sentence.
        shape: (sentences, tokens of each with its padding).
        positions: (tokens,) of each sentence; that of the last one, padding, tells the model how long sentences are.
    """

    rows: torch.Tensor
    place: torch.Tensor
    shape: tuple[int, int]
    positions: torch.Tensor

    def spread(self, x: torch.Tensor) -> torch.Tensor:
        """Return (sentences, tokens, ...) of a batch's (rows, ...), zero where a sentence is over."""
        padded = x.new_zeros(self.shape[0] * self.shape[1], *x.shape[1:])
        padded[self.place] = x[self.rows]
        return padded.unflatten(0, self.shape)

    def gather(self, padded: torch.Tensor) -> torch.Tensor:
        """Return the band's rows of (sentences, tokens, n) as (rows, n)."""
        return padded.flatten(0, -2)[self.place]


def bands(batch: Batch, longest: int, limits: Sequence[int] = ()) -> list[Band]:
    """Cut a batch into bands whose tokens are a multiple of ``WIDTH``, but at most ``longest``.

    ``limits``: of ``describe.longer_contexts``; sentences on two sides of one never share a band.
    """
    begins, lengths = batch.sentences()
    regime = np.searchsorted(limits, batch.wholes[begins].numpy())
    edges, out = [0, *limits, longest], []
    for side, steps in sorted(set(zip(regime.tolist(), (-(-lengths // WIDTH)).tolist(), strict=True))):
        member = np.flatnonzero((regime == side) & (-(-lengths // WIDTH) == steps))
        most, reach = int(lengths[member].max()), edges[side] * (side > 0)
        tokens = max(most, min(steps * WIDTH, edges[side + 1]))
        tokens += most == tokens <= reach  # a column of padding for the last position
        positions = torch.arange(tokens, device=batch.tokens.device)
        positions[-1].clamp_(min=reach)
        inside = np.concatenate([np.arange(n) for n in lengths[member]])
        row, place = (np.repeat(x, lengths[member]) + inside for x in (begins[member], np.arange(len(member)) * tokens))
        send = lambda index: torch.from_numpy(index).to(batch.tokens.device)
        out.append(Band(send(row), send(place), (len(member), tokens), positions))
    return out


def together(bands: Sequence[Band], parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return a batch's rows (rows, n) from what each band has of them, (sentences, tokens, n)."""
    out = parts[0].new_empty(sum(len(band.rows) for band in bands), parts[0].shape[-1])
    for band, part in zip(bands, parts, strict=True):
        out[band.rows] = band.gather(part)
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
