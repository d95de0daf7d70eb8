"""A folder with a model of `transformers`: which of its files a run reads, and their digests."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from ff_memories.base.errors import UserError

CONFIG, TOKENIZER, INDEX = "config.json", "tokenizer.json", "model.safetensors.index.json"
OTHERS = ("tokenizer_config.json", "special_tokens_map.json")  # read where they are there
_SAFE = "save the model with model.save_pretrained(folder), which writes safetensors"


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
