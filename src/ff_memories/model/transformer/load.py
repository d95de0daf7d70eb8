"""Build models of `transformers`: from a folder's files, with names and shapes alone, or with weights drawn anew."""

import sys
import tempfile
from functools import reduce
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

from ff_memories.base import foreign, machine
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.model.families import row
from ff_memories.model.files import checkpoint, config_file, safetensors_check
from ff_memories.model.transformer.describe import TransformerDescription, describe
from ff_memories.model.transformer.hooked import HookedModel

CONSTANTS = 1 << 28  # bytes that a model's masks and positions may take, however small it is


def read_description(path: Path) -> TransformerDescription:
    """Read a model.json. Raises ``UserError`` where it is not that of a model of `transformers`."""
    return foreign.read_json(path, TransformerDescription, rebuild_hint(path), text=True)


def load(
    folder: Path, description: TransformerDescription, device: str = "cpu", precision: Precision = "float32"
) -> HookedModel:
    """Load a model from a folder that the model step wrote.

    Raises ``UserError`` where the weights are not those of the description.
    """
    family = row(description.config, str(folder))
    model = load_weights(folder, description.config, family.architecture, torch.float32)
    return HookedModel(model.to(device), description, family, precision)


def load_folder(folder: Path, config: dict[str, Any], architecture: str, dtype: torch.dtype | None = None) -> Any:
    """Load a model's original files, with eager attention; ``architecture``: its class in `transformers`.

    Raises ``UserError`` where the files are not readable, or ``load_weights`` refuses them.
    """
    pickled = folder / "pytorch_model.bin"
    if not pickled.is_file() or list(folder.glob("*.safetensors")):
        return load_weights(folder, config, architecture, dtype)
    tensors = {name: tensor.clone().contiguous() for name, tensor in checkpoint.load_tensors(pickled).items()}
    with tempfile.TemporaryDirectory() as safe:
        save_file(tensors, Path(safe) / "model.safetensors", metadata={"format": "pt"})
        try:
            return load_weights(Path(safe), config, architecture, dtype)
        except UserError as error:
            raise UserError(str(error).replace(safe, str(pickled))) from None


def load_weights(folder: Path, config: dict[str, Any], architecture: str, dtype: torch.dtype | None) -> Any:
    """Load weights into a class of `transformers`, with eager attention.

    ``dtype``: of weights; ``None``: the narrowest that holds every one as it is. Raises ``UserError`` for weights that
    exceed this machine's memory, or one that is missing, unexpected or misshapen: `transformers` would draw it.
    """
    parameters = check(folder, config, architecture, str(folder))
    if dtype is None:  # that of `transformers` is the first weight's, to which the others would be rounded
        stored = {getattr(torch, safetensors_check.FLOATS[kind]) for _, kind in safetensors_check.kinds(folder)}
        dtype = reduce(torch.promote_types, stored)
    wide = torch.promote_types(dtype, torch.float32)  # of what is no weight, as the scale of Gemma's embedding
    refuse_too_large(parameters, str(folder), wide.itemsize)
    model = _from_files(folder, config, architecture, str(folder), dtype=wide).eval().requires_grad_(False)
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)
    return model


def _from_files(folder: Path, config: dict[str, Any], architecture: str, where: str, **how: Any) -> Any:
    """Return a model of a folder's safetensors; ``how``: besides, as `transformers` names it."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model_config = config_file.as_class(config, where)
    with config_file.understood(f"{where}: not a readable {config['model_type']} model"):
        model, loading_info = getattr(transformers, architecture).from_pretrained(
            folder,
            config=model_config,
            attn_implementation="eager",
            use_safetensors=True,
            local_files_only=True,
            key_mapping=dict.fromkeys(safetensors_check.WRAPPERS, ""),
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            generation_config=transformers.GenerationConfig(),  # nothing is generated, and none is looked for
            **how,
        )
    safetensors_check.refuse_others(loading_info, architecture, where)
    return model


def refuse_too_large(parameters: int, where: str, size: int = 4) -> None:
    """Raise ``UserError`` for a model whose weights, of ``size`` bytes each, exceed this machine's memory."""
    if (need := size * parameters) > (here := machine.memory()):
        raise UserError(
            f"{where}: {parameters / 1e9:,.1f} billion parameters take {need / 1e9:,.0f} GB of memory, but this "
            f"machine has {here / 1e9:,.0f} GB",
            f"use a model of fewer than {here / size / 1e9:.1f} billion parameters, or a machine with more memory",
        )


def check(folder: Path, config: dict[str, Any], architecture: str, where: str) -> int:
    """Hold a folder's safetensors against the model that config.json describes, before memory is taken for one.

    Return how many parameters it has. Where the weights are not there, as of a model on the hub, only the config is
    looked at. Raises ``UserError`` where it is not that of such a model, a file is cut or damaged, or the tensors are
    not the model's.
    """
    config_file.check_numbers(config, f"{where}/config.json")
    model = without_weights(config, architecture, where)
    settings, wanted = model.config, sum(p.numel() for p in model.parameters())
    if (constants := sum(b.numel() * b.element_size() for b in model.buffers())) > max(CONSTANTS, 4 * wanted):
        what = f"config.json asks for {constants / 1e9:,.1f} GB of constants, which no such model has"
        raise UserError(f"{where}: {what}", config_file.SAVED)
    if (heads := settings.num_attention_heads) % (shared := getattr(settings, "num_key_value_heads", None) or heads):
        raise UserError(f"{where}: config.json says {heads} heads of attention in {shared} groups", config_file.SAVED)
    read = model.get_output_embeddings().weight.shape[1]
    if read != settings.hidden_size:
        what = f"a layer's output has {settings.hidden_size} numbers, the output layer reads {read}; with a projection"
        hint = "use a model without a projection before its output layer"
        raise UserError(f"{where}: {what} between them a value by itself predicts nothing", hint)
    paths = safetensors_check.files(folder)
    if paths and all(path.exists() for path in paths):
        for name, kind in safetensors_check.kinds(folder):
            if kind not in safetensors_check.FLOATS:
                what = f"{name} is of type {kind}, no float of 16 bits or more"
                raise UserError(f"{where}: {what}", safetensors_check.PLAIN)
        _from_files(folder, config, architecture, where, dtype=torch.float32, device_map="meta")
    return wanted


def sizes(config: dict[str, Any], signs: str, where: str) -> TransformerDescription:
    """Return what a model is by its config.json alone; no weights are made or read, and its start token is not known.

    Raises ``UserError`` where there is no row for the model, or the config is not that of such a model.
    """
    family = row(config, where)
    return describe(without_weights(config, family.architecture, where), config, family, 0, signs, sys.maxsize)


def without_weights(config: dict[str, Any], architecture: str, where: str) -> Any:
    """Return a model with names and shapes alone. Raises ``UserError`` where the config is not that of such a model."""
    model_config = config_file.as_class(config, where)
    with torch.device("meta"), config_file.understood(f"{where}: not the config of a {config['model_type']} model"):
        return getattr(transformers, architecture)._from_config(model_config)
