"""Read memories' coefficients that a trace sets, such as ``12:1034=0``, and put what follows into plain data."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.text import MINUS, key_and_sign, parse_memory
from ff_memories.model import interventions
from ff_memories.model.interventions import Setting
from ff_memories.model.vocabulary import Vocabulary
from ff_memories.paper.layers.tracing import layer_tops
from ff_memories.report.trace.record import exact, tokens_of

HINT = "give layer, key and number, such as 12:1034=0, 12:1034=x2 or 12:1034-=mean"
_SETTING = re.compile(rf"(\d+):(\d+[-{MINUS}]?)=(.+)")


def read(text: str, model: Any, results: str | Path | None) -> Setting:
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


def record(
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
