"""A folder with a model of `transformers`: which of its files a run reads, and their digests."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.corpus.tokenizer import Tokenizer, start_of
from ff_memories.model import config_file, families, headers

CONFIG, TOKENIZER, PICKLED = "config.json", "tokenizer.json", "pytorch_model.bin"
SINGLE, INDEX = headers.SINGLE, headers.INDEX
OTHERS = ("tokenizer_config.json", "special_tokens_map.json")  # read where they are there
_SAFE = "save the model with model.save_pretrained(folder), which writes safetensors"


def files_of(folder: str | Path) -> list[str]:
    """Return the names of a folder's files that a run reads, sorted.

    Raises:
        UserError: there is no such folder, it lacks weights, a shard of them, the config or the tokenizer, or one of
            these is not a file.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder", "give a folder that `transformers` saved a model in")
    names = chosen({path.name for path in folder.iterdir()}, str(folder), lambda: folder / INDEX)
    for name in names:
        require_file(folder / name)
    return names


def chosen(here: Collection[str], where: str, index: Callable[[], Path]) -> list[str]:
    """Return those of a model's files that a run reads, sorted.

    Args:
        here: the names of all its files.
        where: the model, for messages.
        index: gets the index of shards, which is asked for only where it is read.

    Raises:
        UserError: weights, a shard of them, the config or the tokenizer are missing.
    """
    found = [name for name in (CONFIG, TOKENIZER, *OTHERS) if name in here]
    for name, what in ((CONFIG, "model's config"), (TOKENIZER, "fast tokenizer")):
        if name not in here:
            maker = "tokenizer" if name == TOKENIZER else "model"
            raise UserError(
                f"{where}: no {name}, the {what}", f"save it with `transformers`: {maker}.save_pretrained(folder)"
            )
    if SINGLE in here:  # as `transformers`, which then reads no shards
        return sorted([*found, SINGLE])
    if INDEX in here:
        shards = _shards(index(), where)
        if missing := sorted(shards.difference(here)):
            raise UserError(f"{where}: {INDEX} names {missing[0]}, which is not there", "get all files of the model")
        return sorted([*found, INDEX, *shards])
    if weights := sorted(name for name in here if name.endswith(".safetensors")):
        raise UserError(f"{where}: {weights[0]}, but no {INDEX} that says what is in it", _SAFE)
    if PICKLED in here:
        return sorted([*found, PICKLED])
    if parts := sorted(name for name in here if re.fullmatch(r"pytorch_model-\d+-of-\d+\.bin", name)):
        raise UserError(f"{where}: {parts[0]}: of pickled weights, only a single {PICKLED} is read", _SAFE)
    raise UserError(f"{where}: no weights", _SAFE)


def check(folder: Path, start: str, where: str) -> None:
    """Refuse what the model step would refuse, as far as it shows before a model is built.

    Args:
        folder: has config.json and the tokenizer. Of safetensors that are there, the headers are read, and small
            weights as well.
        start: ``model.start``.
        where: the model, for messages.

    Raises:
        UserError: the model's family has no row, config.json names code or experts, the weights are quantised, cut,
            infinite or not those of config.json, or the tokenizer is not the model's.
    """
    try:
        plain = config_file.read(folder)
        families.row(plain, str(folder / CONFIG))
        types = plain.get("vocab_size")
        tokenizer = Tokenizer.read(folder / TOKENIZER, types if isinstance(types, int) and types > 0 else None)
        start_of(folder, plain, tokenizer, start, str(folder))
        headers.refuse_odd_numbers(headers.check(folder, plain, str(folder)))
    except UserError as error:
        raise UserError(str(error).replace(str(folder), where)) from None


def _shards(index: Path, where: str) -> set[str]:
    try:
        return headers.shards(index)
    except UserError as error:
        raise UserError(str(error).replace(str(index.parent), where)) from None


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
            raise UserError(f"{folder}: {name} is missing, which model.files names", "get the model's files again")
        if (found := digests(folder, [name])[name]) != digest:
            raise UserError(
                f"{folder}/{name}: its SHA-256 is {found}, the config's model.files says {digest}",
                "fetch the file again, or set model.files to the new file's",
            )
