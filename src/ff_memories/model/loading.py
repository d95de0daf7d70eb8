"""The model, loaded on the device that was asked for."""

import os
from pathlib import Path
from typing import Any

import torch

from ff_memories.base import arithmetic, foreign, machine
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.parameters import Execution
from ff_memories.model import drawn
from ff_memories.model.decoder import Decoder, LanguageModel
from ff_memories.model.files import converted


def chosen_device(device: str) -> str:
    """Return ``cpu`` or ``cuda`` for what ``execution.device`` says. Raises ``UserError`` where there is no GPU."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        hint = "set execution.device: auto or cpu, or install a torch built for CUDA"
        raise UserError("execution.device is cuda, and no GPU can be used here", hint)
    return device


def use_precision(precision: Precision, device: str) -> None:
    """Set this process's products to a precision. Raises ``UserError`` where the device does not have it."""
    name = torch.device(device).type
    if name != "cuda":
        if precision == "tf32":
            hint = "run on a GPU, or set extraction.precision: float32"
            raise UserError("extraction.precision is tf32, which only GPUs compute in", hint)
        return
    if precision != "float32" and torch.cuda.get_device_capability(device) < (8, 0):
        hint = "take a GPU of compute capability 8.0 or higher, or set extraction.precision: float32"
        raise UserError(f"{torch.cuda.get_device_name(device)} does not compute in {precision}", hint)
    forced = os.environ.get("NVIDIA_TF32_OVERRIDE")
    if forced is not None and forced != str(int(precision == "tf32")):
        hint = "unset the environment variable"
        raise UserError(f"NVIDIA_TF32_OVERRIDE={forced} contradicts extraction.precision: {precision}", hint)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def load_decoder(weights: Path, description: Path, execution: Execution, precision: Precision = "float32") -> Decoder:
    """Load a run's own model of fairseq, to compute in ``extraction.precision``.

    Raises ``UserError`` for a model of `transformers`, and where there is no such device or it lacks the precision.
    """
    if is_transformer(description):
        raise UserError(f"{weights}: a model of transformers; this step reads fairseq checkpoints only")
    return Decoder(*converted.load(weights, description), _prepared(execution, precision), precision=precision)


def load_model(
    weights: Path, description: Path, execution: Execution, precision: Precision = "float32"
) -> LanguageModel:
    """Load a run's own model, or one that its description says is drawn like it, on the device that was asked for.

    Raises ``UserError`` where there is no such device, or it does not have the precision.
    """
    loaded = read_model(weights, description, _prepared(execution, precision), precision)
    model = drawn.named(description)
    return loaded if model is None else drawn.model_like(loaded, *model, weights, description)


def _prepared(execution: Execution, precision: Precision) -> str:
    """Set threads and precision of this process; return the device, one that no other job holds."""
    torch.set_num_threads(arithmetic.THREADS if arithmetic.portable() else execution.threads)
    device = chosen_device(execution.device)
    if device == "cuda":
        device = f"cuda:{machine.acquire_gpu(torch.cuda.device_count())}"
    use_precision(precision, device)
    return device


def read_model(
    weights: Path, description: Path, device: str = "cpu", precision: Precision = "float32"
) -> LanguageModel:
    """Load a run's own model, to compute in a precision that the device has."""
    if not is_transformer(description):
        return Decoder(*converted.load(weights, description), device, precision=precision)
    from ff_memories.model.transformer import load  # the library takes seconds to load

    return load.load(weights.parent, load.read_description(description), device, precision=precision)


def is_transformer(description: Path) -> bool:
    """Say whether a model.json is of a model of `transformers`. Raises ``UserError`` where it is not readable."""
    return "model_type" in foreign.read_json(description, dict[str, Any], rebuild_hint(description), text=True)
