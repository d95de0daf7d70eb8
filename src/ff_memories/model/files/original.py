"""Load the files that a model of `transformers` came in: safetensors, or a pickle that is read without running it."""

import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ff_memories.base.errors import UserError
from ff_memories.model.files import checkpoint
from ff_memories.model.transformer.load import load_weights


def load_folder(folder: Path, config: dict[str, Any], architecture: str, dtype: torch.dtype | str = "auto") -> Any:
    """Load a model's original files, with eager attention.

    Args:
        config: the content of config.json.
        architecture: class of `transformers` that holds the model.
        dtype: of all numbers; ``auto``: that of the files.

    Raises:
        UserError: the files are not readable, or ``load_weights`` refuses them.
    """
    pickled = folder / "pytorch_model.bin"
    if not pickled.is_file() or list(folder.glob("*.safetensors")):
        return load_weights(folder, config, architecture, dtype)
    own = {name: tensor.clone().contiguous() for name, tensor in checkpoint.load_tensors(pickled).items()}
    if dtype == "auto":
        dtype = next((t.dtype for t in own.values() if t.is_floating_point()), torch.float32)
    with tempfile.TemporaryDirectory() as safe:
        save_file(own, Path(safe) / "model.safetensors", metadata={"format": "pt"})
        try:
            return load_weights(Path(safe), config, architecture, dtype)
        except UserError as error:
            raise UserError(str(error).replace(safe, str(pickled))) from None
