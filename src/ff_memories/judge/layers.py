"""Map the paper's layers to a model of any depth: layer l of L corresponds to 16 l / L of the paper's 16."""

from collections.abc import Mapping

import numpy as np

from ff_memories.judge.measurement import Judged, Limit
from ff_memories.judge.statistics import surely

PAPER = 16


def between(bounds: list[int], layers: int) -> list[int]:
    """Return the layers that correspond to the paper's layers ``bounds[0]`` to ``bounds[1]``, inclusive.

    For 16 layers, these are the same layers. Otherwise they follow relative depth; a shallow model may have none.
    """
    first, last = bounds
    return [layer for layer in range(1, layers + 1) if (first - 1) * layers < PAPER * layer <= last * layers]


def at(layer: int, layers: int) -> int:
    """Return the layer that corresponds to a layer of the paper, by relative depth and at least 1."""
    return max(1, layer * layers // PAPER)


def in_layers(
    holding: Mapping[int, bool], again: Mapping[int, np.ndarray], layers: int, needed: Limit, clear: bool | None
) -> tuple[Judged | None, str]:
    """Judge "in at least ``needed`` of 16 layers", scaled to a model's depth, by the number of layers.

    Args:
        holding: whether the claim holds, for each layer in which it could be measured.
        again: resamples (draws,) of the same.
        layers: the model's.
        clear: whether the claim's direction is clear over all layers.

    Returns:
        The judgement and its explanation; no judgement if the layers without data would decide.
    """
    number, limit = sum(holding.values()), (needed.low or 0) * layers / PAPER
    unknown = layers - len(holding)
    text = f"in {number} of {layers} layers" + (f", {unknown} without data" if unknown else "")
    if number < limit <= number + unknown:
        return None, text
    resamples = list(again.values())
    if not resamples or not all(map(len, resamples)):
        return Judged(number, None, None, Limit(limit), clear), text
    low, high = surely([~draws for draws in resamples]), layers - surely(resamples)
    return Judged(number, low, high, Limit(limit), clear), text
