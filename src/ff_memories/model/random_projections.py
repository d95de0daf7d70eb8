"""The softmax of the released agreement script, whose class and tail projections are drawn and never loaded.

The script builds fairseq's adaptive input and adaptive softmax, loads the embeddings alone and leaves the modules in
training mode. Everything here follows from a seed in the way that it would there after ``torch.manual_seed(seed)``:
the same numbers come from torch's generator in the same order.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

DROPOUT = 0.2  # of the script's softmax, on what the tails' projections give


@contextmanager
def _generator(state: torch.Tensor | int) -> Iterator[None]:
    """Let torch draw from a state or a seed, and leave its own generator as it was."""
    with torch.random.fork_rng(devices=[]):
        if isinstance(state, int):
            torch.default_generator.manual_seed(state)
        else:
            torch.default_generator.set_state(state)
        yield


def draw(bands: list[tuple[int, int]], d: int, seed: int) -> tuple[torch.Tensor, list[torch.Tensor], torch.Tensor]:
    """Draw the projections as the script's modules do when they are made; ``bands``: (words, width), the head first.

    Returns:
        Those to the classes (tails, d) and to each tail (d_k, d), and the generator's state, where dropout goes on.
    """
    with _generator(seed):
        for words, width in bands:  # the adaptive input: drawn twice over, then replaced by the checkpoint's
            nn.Embedding(words, width), nn.Linear(width, d, bias=False)
        for words, width in bands:
            nn.init.normal_(torch.empty(words, width)), nn.init.xavier_uniform_(torch.empty(d, width))
        modules = [nn.Linear(d, out, bias=False) for out in (len(bands) - 1, *(width for _, width in bands[1:]))]
        classes, *tails = (nn.init.xavier_uniform_(module.weight.detach()) for module in modules)
        return classes, tails, torch.default_generator.get_state()


def masks(state: torch.Tensor, shapes: list[tuple[int, int]]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return the dropout factors of one layer's values, (values, d_k) for each tail, and the state afterwards."""
    with _generator(state):
        factors = [nn.functional.dropout(torch.ones(shape), DROPOUT, training=True) for shape in shapes]
        return factors, torch.default_generator.get_state()
