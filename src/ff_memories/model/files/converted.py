"""The model as the steps read it: a description, and weights as safetensors under the paper's names.

Every key of layer l is a row of ``layers.l.keys``, every value a row of ``layers.l.values`` (equation 1:
FF(x) = f(x K^T) V). ``checkpoint`` makes it from a fairseq checkpoint.
"""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from pydantic import PositiveInt
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ff_memories.base import foreign
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import atomic_write, require_file

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Description:
    """What a checkpoint's architecture is, as far as its forward pass depends on it."""

    layers: PositiveInt
    model: PositiveInt  # d
    keys: PositiveInt  # d_m, keys and values per layer
    heads: PositiveInt
    vocab: PositiveInt
    input_cutoffs: tuple[int, ...]  # ids where the bands of an adaptive input end; (vocab,) for a plain one
    adaptive_input: bool
    output_cutoffs: tuple[int, ...]  # where the clusters of an adaptive softmax end; (vocab,) for a plain one
    adaptive_output: bool
    learned_positions: bool
    final_norm: bool  # whether the last layer's output is normalised before the softmax
    max_positions: int  # tokens that the model takes, </s> included
    embedding_scale: float
    parameters: PositiveInt
    aliases: dict[str, str]  # tied weights: name -> name it is stored under


def write(description: Description, weights: Weights, weights_path: str | Path, description_path: str | Path) -> None:
    """Write a model as safetensors and a readable JSON description, tied weights stored once."""
    stored = {n: t.float().contiguous() for n, t in weights.items() if n not in description.aliases}
    with atomic_write(weights_path) as partial, atomic_write(description_path) as text:
        save_file(stored, partial)
        text.write_text(json.dumps(asdict(description), indent=1) + "\n")


def read_description(path: str | Path) -> Description:
    """Read a converted model's description. Raises ``UserError`` where it is none."""
    description = foreign.read_json(path, Description, rebuild_hint(path))
    ends = (description.input_cutoffs, description.output_cutoffs)
    fit = all(end and list(end) == sorted(set(end)) and end[0] > 0 and end[-1] == description.vocab for end in ends)
    if description.model % description.heads or not fit:
        raise UserError(f"{path}: not the sizes of a model", rebuild_hint(path))
    return description


def load(weights_path: str | Path, description_path: str | Path) -> tuple[Description, Weights]:
    """Load a converted model. Raises ``UserError`` when a file is missing or damaged."""
    description = read_description(description_path)
    require_file(weights_path)
    try:
        weights = load_file(weights_path)
        for name, same in description.aliases.items():
            tensor = weights[same]
            transposed = name.endswith("projection") and name.startswith("output.")
            weights[name] = tensor.t() if transposed else tensor
        matrices = [t.shape for n, t in weights.items() if re.fullmatch(r"layers\.\d+\.(keys|values)", n)]
        embedded = sum(t.shape[0] for n, t in weights.items() if re.fullmatch(r"input\.\d+\.embedding", n))
        fit = len(matrices) == 2 * description.layers and embedded == description.vocab
        if not fit or set(matrices) != {(description.keys, description.model)}:
            raise ValueError(f"{description_path} describes another one")
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        hint = rebuild_hint(weights_path, description_path)
        raise UserError(f"{weights_path}: not a readable model ({error})", hint) from None
    return description, weights
