"""Put a trace into plain data, as ``trace --json`` writes it; ``docs/gallery.md`` has every field."""

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.text import MINUS, key_and_sign, parse_memory
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.types import Types
from ff_memories.model import interventions
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.interventions import Setting
from ff_memories.model.vocabulary import Vocabulary
from ff_memories.paper.layers import tracing
from ff_memories.paper.layers.tracing import LayerTrace, Tops, layer_tops
from ff_memories.report.gallery import parts
from ff_memories.report.gallery.site import MANIFEST
from ff_memories.tables.annotation import ANNOTATOR

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


HINT = "give layer, key and number, such as 12:1034=0, 12:1034=x2 or 12:1034-=mean"
_SETTING = re.compile(rf"(\d+):(\d+[-{MINUS}]?)=(.+)")


def read_setting(text: str, model: Any, results: str | Path | None) -> Setting:
    """Return the setting that a text says.

    Args:
        model: an ``api.Model``.
        results: the run's folder, for ``mean``.

    Raises:
        UserError: it is none, the model has no such memory, or its mean or value cannot be had.
    """
    match = _SETTING.fullmatch(text.strip())
    if match is None:
        raise UserError(f"{text[:60]!r}: not a memory and a number", HINT)
    layer, (key, sign), to = int(match[1]), parse_memory(match[2]), match[3].strip()
    model.require(layer, key, sign)
    memory = model.memory(key, sign)
    if not bool(model.decoder.layers[layer - 1].added[memory].any()):
        raise UserError(f"{text}: the value of this memory has length zero, so no coefficient changes anything")
    if to == "mean":
        return Setting(layer, memory, _mean(text, layer, memory, results))
    try:
        number = float(to.removeprefix("x"))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{text[:60]!r}: {to[:30]!r} is no number", HINT)
    return Setting(layer, memory, number, to.startswith("x"))


def _mean(text: str, layer: int, memory: int, results: str | Path | None) -> float:
    """Return a memory's mean over other prefixes, of a run that tested it."""
    path = None if results is None else Path(results, "tables", "causal.parquet")
    if path is not None and path.exists():
        of_memory = (pl.col("layer") == layer) & (pl.col("key") == memory)
        rows = tables.read(path).filter(of_memory, intervention="mean", control="none")
        if len(rows):
            return float(rows["set_to"][0])
    raise UserError(
        f"{text}: no mean of this memory is known", "give a number: only memories in a run's table causal have a mean"
    )


def changed_record(
    model: Any, vocabulary: Vocabulary, tokens: np.ndarray, settings: Sequence[Setting], predictions: int
) -> dict[str, Any]:
    """Return ``set``, the memories, and ``before`` and ``after``, what the model predicts at the last token.

    Raises:
        UserError: a memory is set twice.
    """
    names = [(setting.layer, setting.memory) for setting in settings]
    if len(set(names)) < len(names):
        raise UserError("a memory is set twice", "set each memory once")
    coefficients, outputs = interventions.with_settings(model.decoder, tokens, settings)
    tops = layer_tops(vocabulary, outputs, predictions)
    changed = []
    for setting, (now, to) in zip(settings, coefficients, strict=True):
        key, sign = key_and_sign(setting.memory, model.decoder.neurons)
        numbers = {"coefficient": exact(np.float32(now)), "set_to": exact(np.float32(to))}
        changed.append({"layer": setting.layer, "key": key, "sign": sign, **numbers})
    before, after = (tokens_of(model.dictionary, tops, row) for row in (0, 1))
    return {"set": changed, "before": before, "after": after}


def said(told: dict[str, Any]) -> str:
    """Return a memory that is set in words: ``12:1034−: 0.51 to 0``."""
    sign = MINUS if told["sign"] < 0 else ""
    return f"{told['layer']}:{told['key']}{sign}: {told['coefficient']:.4g} to {told['set_to']:.4g}"


Memory = tuple[int, int]  # layer, and the memory's number in it: with both signs d_m + i is key i of sign -1


def join(found: dict[str, Any], results: Path, neurons: int | None) -> dict[str, Any]:
    """Return a trace with what a run knows of its memories.

    Args:
        found: from ``record``.
        results: the run's folder, ``results/<run>``.
        neurons: d_m where the model counts both signs, else ``None``.

    Raises:
        UserError: a table cannot be read, or belongs to a model with other signs.
    """
    number = lambda memory: (memory["layer"], memory["key"] + (neurons or 0) * (memory["sign"] < 0))
    triggers, patterns = _triggers(results, neurons), _patterns(results, neurons)
    gallery, shown = _gallery(results, found["model"]["layers"])
    for memory in found["memories"]:
        own = number(memory)
        memory["triggers"] = triggers.get(own)
        memory["patterns"] = patterns.get(own)
        here = gallery is not None and (shown is None or own[1] in shown[own[0] - 1])
        memory["address"] = f"#/{memory['layer']}/{memory['key']}{'-' if memory['sign'] < 0 else ''}" if here else None
    return found | {"gallery": gallery}


def _read(results: Path, name: str, neurons: int | None) -> pl.DataFrame | None:
    path = results / "tables" / f"{name}.parquet"
    if not path.exists():
        return None
    table = tables.read(path)
    if tables.neurons_of(path) != neurons:
        raise UserError(f"{path}: its memories have other signs than the model's", rebuild_hint(path))
    return table


def _triggers(results: Path, neurons: int | None) -> dict[Memory, int]:
    """Return the number of triggers of each memory that the run looked at."""
    triggers = _read(results, "triggers", neurons)
    if triggers is None:
        return {}
    counts = triggers.group_by("layer", "key").agg(pl.len())
    counts_by_memory = {(layer, key): n for layer, key, n in counts.iter_rows()}
    looked_at = _read(results, "values", neurons)  # a row for each of them, with triggers or without
    return (
        counts_by_memory
        if looked_at is None
        else dict.fromkeys(looked_at.select("layer", "key").iter_rows(), 0) | counts_by_memory
    )


def _patterns(results: Path, neurons: int | None) -> dict[Memory, list[dict[str, Any]]]:
    """Return the patterns that the proxy found in each memory that it looked at."""
    by_proxy = pl.col("annotator") == ANNOTATOR
    annotations, labels = _read(results, "annotations", neurons), _read(results, "pattern_labels", neurons)
    if annotations is None or labels is None:
        return {}
    looked_at = labels.filter(by_proxy).select("layer", "key").unique().iter_rows()
    patterns: dict[Memory, list[dict[str, Any]]] = {(layer, key): [] for layer, key in looked_at}
    for row in annotations.filter(by_proxy).iter_rows(named=True):
        pattern = {"type": row["type"], "description": row["description"], "triggers": len(row["ranks"])}
        patterns.setdefault((row["layer"], row["key"]), []).append(pattern)
    return patterns


def _gallery(results: Path, layers: int) -> tuple[str | None, list[frozenset[int]] | None]:
    """Return the gallery's page, if there is one, and the memories that it shows by layer, ``None`` for all."""
    folder = results / "gallery"
    try:
        shown = parts.read(folder, MANIFEST).get("shown")
        shown = None if shown is None else [frozenset(keys) for keys in shown]
        whole = (folder / "index.html").is_file() and (shown is None or len(shown) == layers)
    except (OSError, ValueError, LookupError, AttributeError, TypeError):  # none, or damaged: the trace does without
        return None, None
    return ((folder / "index.html").as_posix(), shown) if whole else (None, None)
