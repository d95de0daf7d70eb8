"""The model, loaded on the device that was asked for."""

from pathlib import Path

import torch

from ff_memories.base import arithmetic, gpu_locks
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Execution
from ff_memories.model.decoder import Decoder


def chosen_device(device: str) -> str:
    """Return ``cpu`` or ``cuda`` for what ``execution.device`` says. Raises ``UserError`` where there is no GPU."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "execution.device is cuda, and no GPU can be used here",
            "set execution.device: auto or cpu, or install a torch built for CUDA",
        )
    return device


def load_decoder(weights: Path, description: Path, execution: Execution) -> Decoder:
    """Load the model on the device that was asked for. Raises ``UserError`` where there is none."""
    torch.set_num_threads(arithmetic.THREADS if arithmetic.portable() else execution.threads)
    device = chosen_device(execution.device)
    if device == "cuda":
        device = f"cuda:{gpu_locks.acquire(torch.cuda.device_count())}"
    return Decoder.load(weights, description, device)
