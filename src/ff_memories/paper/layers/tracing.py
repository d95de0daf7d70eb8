"""Follow one text through a model's memories: what every layer predicts at every prefix, and which memories add most.

A layer's predictions and its kind are those of section 5.2 (``composition``, ``refinement``). A memory's share says how
much of the layer's feed-forward output is its own: |m_i| |v_i| over the sum of that over all memories of the layer. The
bias of the second matrix is no memory and has no share.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
import torch
from torch import Tensor

from ff_memories.model.decoder import LanguageModel
from ff_memories.model.vocabulary import Vocabulary
from ff_memories.paper.layers.composition import kinds
from ff_memories.paper.values.values import with_first

LOGITS = 1 << 24  # log-probabilities held at once


@dataclass(frozen=True)
class TopTokens:
    """The most probable tokens of some vectors, most probable first: (rows, n) ids int64 and probabilities float32."""

    ids: np.ndarray
    probabilities: np.ndarray


@dataclass(frozen=True)
class LayerTrace:
    """What one layer does, a row per prefix of the text, the empty one first."""

    number: int  # layer, from 1
    residual: TopTokens  # what r predicts, (rows, n)
    update: TopTokens  # what y predicts
    output: TopTokens  # what o = r + y predicts
    kinds: list[str]  # (rows,) ``residual``, ``agreement``, ``composition`` or ``ffn``
    memories: np.ndarray  # (rows, top) int64, largest share first; with both signs, d_m + i is memory i of sign -1
    coefficients: np.ndarray  # (rows, top) float32; of sign -1, with their signs changed
    # (rows, top) float32, of the sum over all memories of the layer; 0 for a memory that adds nothing
    shares: np.ndarray


def trace(
    decoder: LanguageModel,
    vocabulary: Vocabulary,
    tokens: np.ndarray,
    *,
    layers: Sequence[int],
    top: int,
    predictions: int,
    residual: str = "added",
) -> list[LayerTrace]:
    """Return what layers, numbered from 1, do at every prefix of a text, given without the start token.

    ``top``: memories per prefix and layer, at most d_m; ``predictions``: tokens of each, at most the vocabulary's size.
    ``residual``: as ``composition.residual``, r is what y is ``added`` to, or what a parallel block ``read``.
    """
    traces = []
    with torch.inference_mode():
        batch = decoder.pack([tokens])
        x = decoder.embed(batch)
        for number, layer in enumerate(decoder.layers, 1):
            layer_output = layer(x, batch)
            if number in layers:
                given = x if residual == "read" and decoder.parallel else layer_output.residual
                three = given, layer_output.update, layer_output.residual + layer_output.update
                r, y, o = (layer_tops(vocabulary, h, predictions) for h in three)
                first = {"residual_top": r.ids[:, 0], "ffn_top": y.ids[:, 0], "output_top": o.ids[:, 0]}
                kind = pl.DataFrame(first).select(kinds()).to_series().to_list()
                most = largest(layer_output.coefficients, layer.values, top, decoder.signs)
                traces.append(LayerTrace(number, r, y, o, kind, *most))
            x = layer_output.output
    return traces


def largest(
    coefficients: Tensor, values: Tensor, top: int, signs: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each row's memories with the largest shares, their coefficients and their shares, (rows, top) each.

    With two ``signs``, a negative one of the coefficients m (rows, d_m) is that of memory d_m + i, which is -m.
    """
    neurons = coefficients.shape[1]
    weights = (coefficients.abs() * values[:neurons].float().norm(dim=1)).double()
    total = weights.sum(1, keepdim=True).clamp(min=torch.finfo(torch.double).tiny)
    best = (weights / total).float().topk(min(top, neurons), dim=1)
    m = coefficients.gather(1, best.indices)
    negative = (m < 0) & (signs == 2)
    memories = torch.where(negative, best.indices + neurons, best.indices)
    return tuple(part.cpu().numpy() for part in (memories, torch.where(negative, -m, m), best.values))  # type: ignore[return-value]


def layer_tops(vocabulary: Vocabulary, h: Tensor, n: int) -> TopTokens:
    """Return the ``n`` tokens that layer vectors (rows, d) predict most, through the model's whole output layer.

    The first is that of ``Vocabulary.read``, as the experiments have it.
    """
    reading, log_probabilities = vocabulary.read(h, rank=False), partial(vocabulary.log_probabilities, whole=True)
    return _tops(log_probabilities, vocabulary.output(h), n, vocabulary.size, reading.top, reading.probability)


def value_tops(
    decoder: LanguageModel, vocabulary: Vocabulary, layer: int, memories: Sequence[int], n: int, types: str = "all"
) -> TopTokens:
    """Return the ``n`` tokens that values of a layer, from 1, promote most (section 4), (memories, n).

    What the vocabulary leaves out counts for ``types`` alone: ``values.types``, among which the tokens are.
    """
    with torch.inference_mode():
        values = decoder.layers[layer - 1].values[torch.tensor(list(memories), device=decoder.device)]
        predicted = vocabulary.predict(values, rank=False)
        if types == "all":
            return _tops(vocabulary.log_probabilities, values, n, vocabulary.size, predicted.top, predicted.probability)
        never = vocabulary.never[vocabulary.never < vocabulary.size]

        def log_p(part: Tensor) -> Tensor:
            return vocabulary.log_probabilities(part).index_fill(1, never, -torch.inf)

        n = min(n, vocabulary.size - len(never))
        return _tops(log_p, values, n, vocabulary.size, predicted.trained_top, predicted.trained_probability)


def _tops(
    log_probabilities: Callable[[Tensor], Tensor], h: Tensor, n: int, size: int, first: Tensor, probability: Tensor
) -> TopTokens:
    """Return the ``n`` most probable tokens; of equals, ``first`` (rows,) leads, with its ``probability``."""
    ids, p, rows = [], [], max(1, LOGITS // size)
    for part, leading in zip(h.split(rows), first.split(rows), strict=True):
        log_p = log_probabilities(part)
        ids.append(with_first(leading, log_p.topk(min(n, size), dim=1).indices))
        p.append(log_p.gather(1, ids[-1]).float().exp())
    tokens, probabilities = torch.cat(ids), torch.cat(p)
    probabilities[:, 0] = probability
    return TopTokens(tokens.cpu().numpy(), probabilities.cpu().numpy())
