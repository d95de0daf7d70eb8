"""Golden checks: known numbers of a named checkpoint, measured again before the run computes anything with it (G1-G5).

They show that it is the right one and is read correctly.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_json
from ff_memories.base.parameters import Execution, Input, Output, Param, Params
from ff_memories.base.progress import Progress
from ff_memories.corpus.dictionary import EOS, Dictionary
from ff_memories.inputs import registry as registries
from ff_memories.model.decoder import Decoder
from ff_memories.model.loading import load_decoder
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


def run(
    source: Param,
    registry: Params,
    weights: Input,
    description: Input,
    dictionary: Input,
    test: Input,
    out: Output,
    execution: Execution,
    windows: int | None = None,
) -> None:
    """Measure the checkpoint and compare.

    Args:
        source: the checkpoint's name in the registry
        registry: another registry of sources
        test: the test text
        out: file to write: the findings as JSON; written only if all checks pass
        windows: number of windows of text; default: all on a GPU, a few on a CPU
    """
    others = registry[0] if registry else None
    row = registries.source(source, others, "model")
    known, decoder = registries.golden(row, others), load_decoder(weights, description, execution)
    if windows is None and decoder.device.type == "cpu":
        windows = WINDOWS_WITHOUT_GPU
    measured, faults = check(decoder, Dictionary.read(dictionary), test, known, windows)
    if faults:
        lines = "\n  ".join(faults)
        hint = f"remove {row.folder} and fetch it again, or set sources.golden: off; the run then counts as a surrogate"
        raise UserError(f"this is not the known {source}\n  {lines}", hint)
    write_json(out, measured, sort_keys=True)
