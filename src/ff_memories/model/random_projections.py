"""The softmax of the released agreement script, whose class and tail projections are drawn and never loaded.

The script builds fairseq's adaptive input and adaptive softmax, loads the embeddings alone and leaves the modules in
training mode. Everything here follows from a seed in the way that it would there after ``torch.manual_seed(seed)``:
the same numbers come from torch's generator in the same order.
"""

import torch
from torch import nn


def draw(bands: list[tuple[int, int]], d: int, seed: int) -> tuple[torch.Tensor, list[torch.Tensor], torch.Tensor]:
    """Draw the projections as the script's modules do when they are made; ``bands``: (words, width), the head first.

    Returns:
        Those to the classes (tails, d) and to each tail (d_k, d), and the generator's state, where dropout goes on.
    """
    with torch.random.fork_rng(devices=[]):  # torch's own generator stays as it was
        torch.default_generator.manual_seed(seed)
        for words, width in bands:  # the adaptive input: drawn twice over, then replaced by the checkpoint's
            nn.Embedding(words, width), nn.Linear(width, d, bias=False)
        for words, width in bands:
            nn.init.normal_(torch.empty(words, width)), nn.init.xavier_uniform_(torch.empty(d, width))
        modules = [nn.Linear(d, out, bias=False) for out in (len(bands) - 1, *(width for _, width in bands[1:]))]
        classes, *tails = (nn.init.xavier_uniform_(module.weight.detach()) for module in modules)
        return classes, tails, torch.default_generator.get_state()
