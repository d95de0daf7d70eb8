"""Put a trace into plain data, as ``trace --json`` writes it; ``docs/gallery.md`` has every field."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ff_memories.base.text import key_and_sign
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.types import Types
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.vocabulary import Vocabulary
from ff_memories.paper.layers import tracing
from ff_memories.paper.layers.tracing import LayerTrace, Tops

FORMAT = "ff-memories trace 1"
PROMOTED = 5  # tokens that a value promotes


def record(
    decoder: LanguageModel,
    types: Types,
    tokens: np.ndarray,
    words: Sequence[str],
    layers: Sequence[LayerTrace],
    *,
    values: Vocabulary,
    among: str = "all",
) -> dict[str, Any]:
    """Return a text's trace.

    Args:
        tokens: (tokens,) ids of the text.
        words: its words; of a dictionary one for each token.
        layers: what its layers do.
        values: how values are read.
        among: ``values.types``.
    """
    shape = decoder.description
    positions = [_position(types, decoder.start, 0, "")]
    written = words if isinstance(types, Dictionary) else [""] * len(tokens)
    for place, (token, word) in enumerate(zip(tokens.tolist(), written, strict=True), 1):
        positions.append(_position(types, token, place, word))
    found = [_memories(decoder, types, layer, values, among) for layer in layers]
    return {
        "format": FORMAT,
        "text": " ".join(words),
        "model": {"layers": shape.layers, "keys": shape.keys, "signs": decoder.signs},
        "projection": values.kind,
        "positions": positions,
        "layers": [layer.number for layer in layers],
        "cells": [_cell(decoder, types, layer, place) for place in range(len(positions)) for layer in layers],
        "memories": [memory for own in found for memory in own],
    }


def _position(types: Types, token: int, place: int, word: str) -> dict[str, Any]:
    unknown = types.unknown is not None and token == types.unknown
    described: dict[str, Any] = {"position": place, "token": types[token], "id": token, "unknown": unknown}
    return described | ({"written": word} if unknown and word else {})


def _cell(decoder: LanguageModel, types: Types, layer: LayerTrace, place: int) -> dict[str, Any]:
    rows = zip(layer.memories[place].tolist(), layer.coefficients[place], layer.shares[place], strict=True)
    memories = []
    for memory, coefficient, share in rows:
        if share > 0:
            key, sign = key_and_sign(memory, decoder.neurons)
            memories.append({"key": key, "sign": sign, "coefficient": exact(coefficient), "share": exact(share)})
    return {
        "position": place,
        "layer": layer.number,
        "kind": layer.kinds[place],
        "residual": tokens_of(types, layer.residual, place),
        "update": tokens_of(types, layer.update, place),
        "output": tokens_of(types, layer.output, place),
        "memories": memories,
    }


def _memories(
    decoder: LanguageModel, types: Types, layer: LayerTrace, values: Vocabulary, among: str
) -> Iterable[dict[str, Any]]:
    """Yield the layer's memories that some cell lists, by number."""
    listed = np.unique(layer.memories[layer.shares > 0])
    if not len(listed):
        return
    tops = tracing.value_tops(decoder, values, layer.number, listed.tolist(), PROMOTED, among)
    for row, memory in enumerate(listed.tolist()):
        key, sign = key_and_sign(memory, decoder.neurons)
        yield {"layer": layer.number, "key": key, "sign": sign, "promotes": tokens_of(types, tops, row)}


def tokens_of(types: Types, tops: Tops, row: int) -> list[dict[str, Any]]:
    """Return a row's tokens as plain data, most probable first."""
    pairs = zip(tops.ids[row].tolist(), tops.probabilities[row], strict=True)
    return [{"token": types[token], "id": token, "probability": exact(p)} for token, p in pairs]


def exact(value: np.floating[Any]) -> float:
    """Return a float32 by the fewest digits that always tell it from its neighbours: nine."""
    return float(f"{value:.9g}")
