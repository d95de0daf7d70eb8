"""A folder with a model of `transformers`: config.json, weights and tokenizer.json, read as data and never run.

What could name code, or a model that is not what its weights say, is refused before `transformers` sees it.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError

CONFIG, TOKENIZER, INDEX = "config.json", "tokenizer.json", "model.safetensors.index.json"
OTHERS = ("tokenizer_config.json", "special_tokens_map.json")  # read where they are there
_CODE = ("auto_map", "attn_implementation", "experts_implementation", "custom_pipelines")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_experts_per_tok")
_SAFE = "save the model with model.save_pretrained(folder), which writes safetensors"


def read_config(path: Path) -> dict[str, Any]:
    """Read a config.json as data.

    Raises:
        UserError: the file is no mapping, or it names code, quantised weights or experts.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file", "give a folder that `transformers` saved a model in") from None
    except (ValueError, OSError, RecursionError) as error:
        raise UserError(f"{path}: not readable as JSON ({error})", "fetch the file again") from None
    if not isinstance(config, dict):
        raise UserError(f"{path}: not a mapping", "fetch the file again")
    for name, value in _entries(config):
        if any(word in name for word in _CODE) and value:
            raise UserError(f"{path}: refused, {name} can name code to run", f"remove {name} if the model needs none")
        if name == "quantization_config" and value:
            raise UserError(f"{path}: the weights are quantised", "use the checkpoint in float32, float16 or bfloat16")
        if name in _EXPERTS and isinstance(value, int) and value > 1:
            raise UserError(
                f"{path}: a mixture of experts ({name}: {value}); which memories exist depends on the token",
                "use a dense model",
            )
    return config


def _entries(config: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the entries of a mapping and of the mappings in it."""
    for name, value in config.items():
        yield name, value
        if isinstance(value, dict):
            yield from _entries(value)


def files_of(folder: str | Path) -> list[str]:
    """Return the names of a folder's files that a run reads, sorted.

    Raises:
        UserError: there is no such folder, or it lacks weights, a shard of them, the config or the tokenizer.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder", "give a folder that `transformers` saved a model in")
    here = {path.name for path in folder.iterdir() if path.is_file()}
    found = [name for name in (CONFIG, TOKENIZER, *OTHERS) if name in here]
    for name, what in ((CONFIG, "config"), (TOKENIZER, "fast tokenizer")):
        if name not in here:
            raise UserError(
                f"{folder}: no {name}, the model's {what}", f"save it there: {what.split()[-1]}.save_pretrained(folder)"
            )
    if INDEX in here:
        shards = _shards(folder / INDEX)
        if missing := sorted(shards - here):
            raise UserError(f"{folder}: {INDEX} names {missing[0]}, which is not there", "fetch all files of the model")
        return sorted([*found, INDEX, *shards])
    weights = sorted(name for name in here if name.endswith(".safetensors"))
    if weights:
        if weights != ["model.safetensors"]:
            raise UserError(f"{folder}: {weights[0]}, but no {INDEX} that says what is in it", _SAFE)
        return sorted([*found, *weights])
    if "pytorch_model.bin" in here:
        return sorted([*found, "pytorch_model.bin"])
    raise UserError(f"{folder}: no weights", _SAFE)


def _shards(index: Path) -> set[str]:
    try:
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, OSError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{index}: not an index of weights ({error})", "fetch the file again") from None
    for name in shards:
        if not isinstance(name, str) or "/" in name or not name.endswith(".safetensors"):
            raise UserError(f"{index}: names {name!r}, which is not a safetensors file beside it", _SAFE)
    return shards


def digests(folder: str | Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files in a folder, by name."""
    out = {}
    for name in names:
        with (Path(folder) / name).open("rb") as file:
            out[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return out


def check_digests(folder: str | Path, wanted: dict[str, str]) -> None:
    """Raise ``UserError`` where a file of a folder is missing or is not the one that the config pins."""
    for name, digest in wanted.items():
        if not (Path(folder) / name).is_file():
            raise UserError(f"{folder}: {name} is missing, which model.files names", "fetch the model again")
        if (found := digests(folder, [name])[name]) != digest:
            raise UserError(
                f"{folder}/{name}: its SHA-256 is {found}, the config's model.files says {digest}",
                "fetch the file again, or set model.files to the new file's",
            )
