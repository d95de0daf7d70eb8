"""Golden checks: measure known numbers of a checkpoint again, to see that it is the right one and is read correctly.

``check`` looks at the model and the test text, ``endings`` at the triggers that the paper shows.
"""

import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from ff_memories.base.progress import Progress
from ff_memories.corpus.dictionary import EOS, Dictionary
from ff_memories.inputs import registry
from ff_memories.model.decoder import Decoder
from ff_memories.paper.values.values import value_predictions

WINDOWS_WITHOUT_GPU = 8


def stream(path: Path, dictionary: Dictionary) -> np.ndarray:
    """Return a text in the form of the training data: every line's words, then ``</s>``."""
    with path.open(encoding="utf-8") as lines:
        ids = [token for line in lines for token in (*dictionary.encode(line.split()), EOS)]
    return np.array(ids, dtype=np.int64)


def perplexity(decoder: Decoder, ids: np.ndarray, context: int, counted: int, windows: int | None) -> float:
    """Return exp of the mean loss over windows of ``counted`` tokens with ``context`` tokens before them.

    The first window has no context. ``ids``: the text (``stream``). ``windows``: their number, spread evenly; ``None``:
    all, so every token counts once.
    """
    starts = np.arange(0, len(ids), counted)
    if windows is not None and windows < len(starts):
        starts = starts[np.linspace(1, len(starts) - 2, windows).round().astype(int)]
    total = n = 0.0
    with torch.inference_mode(), Progress(len(starts), "windows", "perplexity") as progress:
        for start in starts.tolist():
            targets = ids[start : start + counted]
            before = ids[max(0, start - context) : start]
            inputs = np.concatenate([before, targets[:-1]])  # Batch puts a </s> in front
            h = decoder.forward(decoder.pack([inputs]))[-len(targets) :]
            wanted = torch.from_numpy(targets).to(decoder.device)
            prediction = decoder.vocabulary.read(h, wanted, rank=False)
            total -= prediction.target_probability.clamp(min=1e-38).log().double().sum().item()
            n += len(targets)
            progress.step(1)
    return math.exp(min(total / n, 700.0))


def check(
    decoder: Decoder, dictionary: Dictionary, test: Path, known: dict[str, Any], windows: int | None
) -> tuple[dict[str, Any], list[str]]:
    """Measure G1-G5; return the numbers, and a line for each that differs from the known one.

    If a size differs (G1), nothing else is measured. ``windows``: of the test text; ``None``: all.
    """
    shape, options = decoder.description, known["perplexity"]
    found: dict[str, Any] = {"parameters": shape.parameters, "vocab": shape.vocab}
    faults = [f"{name}: {n:,}, expected {known[name]:,} (G1)" for name, n in found.items() if n != known[name]]
    if faults:
        return found, faults
    none = np.full((shape.layers, shape.keys), -1, dtype=np.int64)
    predictions = value_predictions(decoder, decoder.vocabulary, none)["all"]
    best = np.argsort(-predictions.probability.ravel(), kind="stable")[: known["top_values"]["values"]]
    upper = best // shape.keys + 1 >= known["top_values"]["from_layer"]
    measured = perplexity(decoder, stream(test, dictionary), options["context"], options["counted"], windows)
    spans = {
        "perplexity": ("G2", measured, options["sample" if windows else "all"]),
        "max_probability": ("G4", float(predictions.probability.max()), known["max_probability"]),
        "top_values": ("G5", float(upper.mean()), known["top_values"]["share"]),
    }
    for name, (which, number, (low, high)) in spans.items():
        found[name] = number
        if not low <= number <= high:
            faults.append(f"{name}: {number:.4g}, expected {low:g} to {high:g} ({which})")
    found["tops"] = {}
    for at in known["tops"]:
        layer, key = at["layer"], at["key"]
        found["tops"][f"{layer}/{key}"] = top = dictionary[predictions.top[layer - 1, key]]
        if top != at["token"]:
            faults.append(f"value {key} of layer {layer} predicts {top!r}, expected {at['token']!r} (G3)")
    found["perplexity_windows"] = "all" if windows is None else windows
    return found, faults


def expected(source: registry.Source, others: str | None) -> dict[str, Any]:
    """Read a checkpoint's known numbers; ``others``: another registry."""
    return tomllib.loads(registry.golden_file(source, others).read_text(encoding="utf-8"))


def endings(
    triggers: pl.DataFrame, last_token: Callable[[int, int], int | None], dictionary: Dictionary, known: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return, for each key of G6, the share of its triggers whose last word is one of the known words."""
    out = []
    for at in known.get("endings", []):
        listed = triggers.filter((pl.col("layer") == at["layer"]) & (pl.col("key") == at["key"])).sort("rank").head(25)
        ids = {dictionary.ids[word] for word in at["words"] if word in dictionary.ids}
        hits = [last_token(row["sentence"], row["position"]) in ids for row in listed.iter_rows(named=True)]
        out.append({**at, "found": sum(hits) / len(hits) if hits else 0.0, "n": len(hits)})
    return out
