"""A model's config.json, read as data: nothing in it may name code that `transformers` would load."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ff_memories.base import foreign
from ff_memories.base.errors import UserError

LARGEST = 1 << 20  # bytes
SAVED = "give the config.json that was saved with the model"
CODE = re.compile(r"auto_map|custom_pipelines|.*(attn|experts)_implementation.*")

# Sizes under all of their names: whole numbers from 1 to the largest. A layer's number fits one byte of a table.
DEPTH = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
SIZES = dict.fromkeys(DEPTH, 255) | dict.fromkeys(
    (
        "hidden_size", "n_embd", "n_embed", "d_model", "word_embed_proj_dim", "intermediate_size", "n_inner", "ffn_dim",
        "ffn_hidden_size", "num_attention_heads", "n_head", "num_key_value_heads", "num_kv_heads", "head_dim",
        "vocab_size", "max_position_embeddings", "n_positions", "n_ctx", "seq_length", "sliding_window",
        "original_max_position_embeddings",
    ),
    1 << 24,
)  # fmt: skip


def read(folder: Path) -> dict[str, Any]:
    """Return the content of a folder's config.json.

    Raises ``UserError`` where it is missing, no JSON object, names code, has odd numbers, or weights are quantised.
    """
    path = folder / "config.json"
    hint = SAVED if path.exists() else "give the folder that `transformers` saved the model in"
    content: Any = foreign.read_json(path, Any, hint, largest=LARGEST, text=True)
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise UserError(f"{path}: no JSON object with a model_type", "give the config.json that `transformers` saved")
    for key, value in _entries(content):
        if value is None or isinstance(value, bool) or not (value or key == "quantization_config"):
            continue
        if CODE.fullmatch(key):
            raise UserError(f"{path}: {key} names code, and no code of a model's is run", f"remove {key} from the file")
        if key == "quantization_config":
            raise UserError(f"{path}: the weights are quantised", "give the model in float32, float16 or bfloat16")
    check_numbers(content, str(path))
    return content


def check_numbers(content: dict[str, Any], where: str) -> None:
    """Raise ``UserError`` for a size that no model has; ``where``: the file, for messages."""
    for key, value in _entries(content):
        if key in SIZES and value is not None and not (type(value) is int and 1 <= value <= SIZES[key]):
            stated, wanted = f"{key} is {str(value)[:40]}", f"a whole number from 1 to {SIZES[key]:,}"
            raise UserError(f"{where}: {stated}; expected {wanted}", SAVED)


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Say in a line what `transformers` could not make of a config.json or of weights; ``what`` it tried."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # of many kinds, by what the file holds
        message = " ".join((str(error) or type(error).__name__).split())[:300]
        raise UserError(f"{what} ({message})", SAVED) from None


def as_class(content: dict[str, Any], where: str) -> Any:
    """Return a config.json as the object that its class in `transformers` makes of it.

    What every class has besides (labels, what a call returns) says nothing of a language model, and is left out. Raises
    ``UserError`` where the class refuses it.
    """
    import transformers

    dropped = {*dir(transformers.PreTrainedConfig)} - {"rope_scaling", "per_layer_config"}
    arguments = {name: value for name, value in content.items() if name not in dropped and not name.startswith("_")}
    kind = content["model_type"]
    with understood(f"{where}: not the config of a {kind} model"):
        return transformers.CONFIG_MAPPING[kind](**arguments)


def _entries(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of an object and of those within it."""
    if isinstance(content, list):
        for part in content:
            yield from _entries(part)
    elif isinstance(content, dict):
        for name, part in content.items():
            yield name, part
            yield from _entries(part)
