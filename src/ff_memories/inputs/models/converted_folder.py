"""A model in another format, written once as a folder of `transformers` that everything else reads.

The folder stands in a cache outside the results, under the digest of what it was made from. ``made_from.json`` in it
says what that was, and names the folder's other files with their digests.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_folder, atomic_write, write_json, write_whole
from ff_memories.inputs.models import model_folder


class Model(NamedTuple):
    """A model to write as a folder.

    Attributes:
        config: the content of config.json.
        names: of its tensors, in `transformers`.
        tensor: returns one of them, in float32.
        tokenizer: the content of tokenizer.json.
        special: the special tokens for tokenizer_config.json, such as ``bos_token``.
        told: what made_from.json says besides, such as the types of the file's tensors.
        numbers: how many numbers all tensors hold.
    """

    config: dict[str, Any]
    names: list[str]
    tensor: Callable[[str], np.ndarray]
    tokenizer: str
    special: dict[str, str]
    told: dict[str, Any]
    numbers: int


def is_whole(folder: Path, digest: str) -> bool:
    """Return whether a folder holds all files of the model that was made from a file with this SHA-256."""
    names = (*model_folder.CONVERTED, model_folder.MADE_FROM)
    return all((folder / n).is_file() for n in names) and model_folder.made_from(folder)["sha256"] == digest


def write(model: Model, folder: Path, source: str, digest: str) -> None:
    """Write a model as a folder, whole or not at all.

    Args:
        source: the name of what it is made from.
        digest: its SHA-256.

    Raises:
        UserError: the disk or the memory is too small.
    """
    import torch  # takes a second to load, and most commands only ask whether a model was converted
    from safetensors.torch import save_file

    need = 4 * model.numbers
    folder.parent.mkdir(parents=True, exist_ok=True)
    for what, free in (("disk", shutil.disk_usage(folder.parent).free), ("memory", psutil.virtual_memory().available)):
        if free < need * 1.1:
            raise UserError(
                f"{source}: needs {need / 1e9:.1f} GB of {what} in float32, and {free / 1e9:.1f} GB are free",
                "free some, or use a smaller model",
            )
    with atomic_folder(folder) as partial:
        rows = {name: np.require(model.tensor(name), requirements=["C", "W"]) for name in model.names}
        weights = {name: torch.from_numpy(found) for name, found in rows.items()}
        with atomic_write(partial / model_folder.SINGLE) as file:
            save_file(weights, file, metadata={"format": "pt"})
        write_json(partial / model_folder.CONFIG, model.config)
        write_whole(partial / model_folder.TOKENIZER, model.tokenizer)
        write_json(partial / model_folder.OTHERS[0], model.special)
        files = model_folder.digests(partial, model_folder.CONVERTED)
        told = {"source": source, "sha256": digest, **model.told, "files": files}
        write_json(partial / model_folder.MADE_FROM, told)
        if folder.is_dir():  # what Snakemake made, or an older conversion left
            shutil.rmtree(folder)
