"""A folder with a model of `transformers`: which of its files a run reads, their digests, and its tokenizer.

A model in another format is written once as such a folder, which everything else reads. The folder stands in a cache
outside the results, under the digest of what it was made from. ``MADE_FROM`` in it says what that was, and names the
folder's other files with their digests.
"""

import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from pydantic import BaseModel

from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_folder, atomic_write, require_file, sha256, write_json, write_whole
from ff_memories.corpus.tokenizer import Tokenizer, start_of
from ff_memories.model import families
from ff_memories.model.files import config_file, safetensors_check

CONFIG, TOKENIZER, PICKLED = "config.json", "tokenizer.json", "pytorch_model.bin"
ADAPTER = "adapter_config.json"
SINGLE, INDEX = safetensors_check.SINGLE, safetensors_check.INDEX
MADE_FROM = "made_from.json"  # of a model that was converted from another format
TOKENIZER_CONFIG, *OF_TOKENIZER = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
OTHERS = (TOKENIZER_CONFIG, *OF_TOKENIZER, MADE_FROM)  # read where they are there
CONVERTED = (CONFIG, SINGLE, TOKENIZER, TOKENIZER_CONFIG)  # what a converted model consists of, besides MADE_FROM
PLACE = Path("data/converted")  # outside the results
SAVE_TOKENIZER = "save it with `transformers`: tokenizer.save_pretrained(folder)"
_SAFE = "save the model with model.save_pretrained(folder), which writes safetensors"


class MadeFrom(BaseModel, extra="allow"):
    """What a model was converted from: a file's digest, and the digests of the folder's files."""

    sha256: str
    files: dict[str, str]
    types: dict[str, int] = {}
    bits: list[int] = []


def files_of(folder: str | Path) -> list[str]:
    """Return the names of a folder's files that a run reads, sorted.

    Raises ``UserError`` where there is no such folder, one of its files is none, or ``chosen`` refuses them.
    """
    folder = Path(folder)
    refuse_file(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder", "give a folder that `transformers` saved a model in")
    names = chosen({path.name for path in folder.iterdir()}, str(folder), folder)
    for name in names:
        require_file(folder / name)
    return names


def refuse_file(path: Path) -> None:
    """Raise ``UserError`` for a file, or its name, where a folder with a model is meant; say how it is given."""
    hints = {
        ".safetensors": f"give its folder, which also needs {CONFIG} and {TOKENIZER}",
        ".bin": f"give its folder, which also needs {CONFIG} and {TOKENIZER}",
        ".pt": f"a checkpoint of fairseq needs its dictionary: --checkpoint {path} --dictionary dict.txt",
        ".yaml": f"run a config with: ff-memories run {path}",
    }
    if path.is_file() or (path.suffix in hints and not path.exists()):
        hint = hints.get(path.suffix, "give a folder that `transformers` saved a model in, or a GGUF file")
        if (path.parent / CONFIG).is_file():
            hint = f"give its folder: --model {path.parent.resolve() if path.parent == Path() else path.parent}"
        raise UserError(f"{path}: expected a folder with a model, not a file", hint)


def chosen(here: Collection[str], where: str, folder: Path) -> list[str]:
    """Return those of a model's files that a run reads, sorted; ``folder`` has the index of shards, if there is one.

    Raises ``UserError`` where weights, a shard of them, the config or the tokenizer are missing.
    """
    if ADAPTER in here:
        hint = "save both as one model: merge_and_unload().save_pretrained(folder)"
        raise UserError(f"{where}: an adapter of peft ({ADAPTER}), which changes another model's weights", hint)
    names = [name for name in (CONFIG, TOKENIZER, *OTHERS) if name in here]
    for name, maker in ((CONFIG, "model"), (TOKENIZER, "tokenizer")):
        if name not in here:
            raise UserError(f"{where}: no {name}", f"save it with `transformers`: {maker}.save_pretrained(folder)")
    if SINGLE in here:  # as `transformers`, which then reads no shards
        return sorted([*names, SINGLE])
    if INDEX in here:
        try:
            shards = safetensors_check.shards(folder / INDEX)
        except UserError as error:
            raise UserError(str(error).replace(str(folder), where)) from None
        if missing := sorted(shards.difference(here)):
            raise UserError(f"{where}: {INDEX} names {missing[0]}, which is not there", "get all files of the model")
        return sorted([*names, INDEX, *shards])
    if PICKLED in here and not any(name.endswith(".safetensors") for name in here):
        return sorted([*names, PICKLED])
    raise UserError(f"{where}: no weights: neither {SINGLE}, nor {INDEX} with its files, nor a single {PICKLED}", _SAFE)


def check(folder: Path, start: str, where: str) -> None:
    """Raise ``UserError`` for what the model step would refuse, as far as it shows before a model is built.

    The folder has config.json and the tokenizer. Of safetensors that are there, the headers are read, and small weights
    as well.
    """
    from ff_memories.model.transformer import load  # the library takes seconds to load

    try:
        plain = config_file.read(folder)
        family = families.row(plain, str(folder / CONFIG))
        types = plain.get("vocab_size")
        vocab = types if isinstance(types, int) and types > 0 else None
        Tokenizer.read(folder / TOKENIZER, vocab)
        load.check(folder, plain, family.architecture, str(folder))
        safetensors_check.refuse_odd_numbers(folder)
        start_of(folder, plain, read_tokenizer(folder, vocab), start, str(folder))
    except UserError as error:
        raise UserError(str(error).replace(str(folder), where)) from None


def digests(folder: str | Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files in a folder, by name."""
    return {name: sha256(Path(folder) / name) for name in names}


def converted(digest: str) -> Path:
    """Return the folder of the model that is made from a GGUF file with this SHA-256."""
    return PLACE / digest[:32]


def made_from(folder: str | Path) -> dict[str, Any]:
    """Return what a folder's model was made from, by ``MADE_FROM``; nothing for one that was not converted."""
    if not (path := Path(folder) / MADE_FROM).exists():
        return {}
    return foreign.read_json(path, MadeFrom, f"remove {folder} and run again").model_dump(exclude_unset=True)


def check_digests(folder: str | Path, wanted: dict[str, str]) -> None:
    """Raise ``UserError`` where a file of a folder is missing or is not the one that the config pins.

    For a converted model the config pins what it was made from, and ``MADE_FROM`` the folder's files.
    """
    if len(wanted) == 1 and CONFIG not in wanted:
        origin = made_from(folder)
        if origin.get("sha256") not in wanted.values():
            hint = f"remove {folder} and run again"
            raise UserError(f"{folder}: not made from the file that model.files names", hint)
        wanted = origin["files"]
    more = [n for n in (TOKENIZER_CONFIG, *OF_TOKENIZER) if n not in wanted and (Path(folder) / n).exists()]
    if wanted and more:
        raise UserError(f"{folder}: {more[0]} changes the tokenizer, and model.files does not name it", "remove it")
    for name, digest in wanted.items():
        if not (Path(folder) / name).is_file():
            raise UserError(f"{folder}: {name} is missing, which model.files names", "get the model's files again")
        if (actual := digests(folder, [name])[name]) != digest:
            hint = "fetch the file again, or set model.files to the new file's"
            raise UserError(f"{folder}/{name}: its SHA-256 is {actual}, the config's model.files says {digest}", hint)


class ConvertedModel(NamedTuple):
    """A model in another format, to write as a folder."""

    config: dict[str, Any]  # the content of config.json
    names: list[str]  # of its tensors, in `transformers`
    tensor: Callable[[str], np.ndarray]  # returns one of them, in float32
    tokenizer: str  # the content of tokenizer.json
    special: dict[str, str]  # tokens for tokenizer_config.json, such as ``bos_token``
    told: dict[str, Any]  # what made_from.json says besides, such as the types of the file's tensors
    numbers: int  # how many all tensors hold


def is_converted(folder: Path, digest: str) -> bool:
    """Return whether a folder holds all files of the model that was made from a file with this SHA-256."""
    return all((folder / n).is_file() for n in (*CONVERTED, MADE_FROM)) and made_from(folder)["sha256"] == digest


def write_converted(model: ConvertedModel, folder: Path, source: str, digest: str) -> None:
    """Write a model as a folder, whole or not at all; ``digest``: the SHA-256 of the ``source`` that it is made from.

    Raises ``UserError`` where the disk or the memory is too small.
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
        weights = {name: torch.from_numpy(array) for name, array in rows.items()}
        with atomic_write(partial / SINGLE) as file:
            save_file(weights, file, metadata={"format": "pt"})
        write_json(partial / CONFIG, model.config)
        write_whole(partial / TOKENIZER, model.tokenizer)
        write_json(partial / TOKENIZER_CONFIG, model.special)
        files = digests(partial, CONVERTED)
        origin = {"source": source, "sha256": digest, **model.told, "files": files}
        write_json(partial / MADE_FROM, origin)
        if folder.is_dir():  # what Snakemake made, or an older conversion left
            shutil.rmtree(folder)


def read_tokenizer(folder: Path, vocab: int | None = None, sentences: Sequence[str] = ()) -> Tokenizer:
    """Return a folder's tokenizer as the installed `transformers` makes it: what a run reads text with.

    Its class may build it anew and use only some of tokenizer.json, and tokenizer_config.json may change it further.
    Code that the folder names is never run. On ``sentences``, and a few short texts, its ids are compared with those
    that ``transformers`` gives. Raises ``UserError`` where they differ, a file is damaged or names more types than the
    model (``vocab``), tokens are drawn, or ``transformers`` reads no fast tokenizer that tokenizer.json can hold.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast
    from transformers.utils import logging

    Tokenizer.read(folder / TOKENIZER, vocab)
    for path in (*folder.glob("*.json"), *folder.glob("**/*.jinja")):
        require_file(path)
    config = config_file.as_class(config_file.read(folder), str(folder))  # which holds nothing that is endless
    for name in (TOKENIZER_CONFIG, *OF_TOKENIZER):
        if (folder / name).exists():
            foreign.read_json(folder / name, dict[str, Any], SAVE_TOKENIZER, text=True)
    logging.set_verbosity_error()
    try:
        theirs = AutoTokenizer.from_pretrained(folder, config=config, local_files_only=True, trust_remote_code=False)
        if not isinstance(theirs, PreTrainedTokenizerFast):
            raise TypeError(f"{type(theirs).__name__} is no fast tokenizer")
        texts = ["The cat", *(f"a {token}b" for token in list(theirs.get_added_vocab())[:20]), *sentences]
        wanted = [theirs(text, add_special_tokens=False, verbose=False)["input_ids"] for text in texts]
    except Exception as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        message = f"{folder}: `transformers` makes no tokenizer of {TOKENIZER} and {TOKENIZER_CONFIG} ({why})"
        raise UserError(message, SAVE_TOKENIZER) from None
    tokenizer = Tokenizer.of(theirs.backend_tokenizer.to_str(), str(folder / TOKENIZER))
    for text, ids in zip(texts, wanted, strict=True):
        if (ours := tokenizer.encode([text])) != ids:
            raise UserError(
                f"{folder}: {TOKENIZER} gives {text[:40]!r} the ids {ours[:12]}, `transformers` {ids[:12]}",
                f"remove split_special_tokens from {TOKENIZER_CONFIG} if it is there, or {SAVE_TOKENIZER}",
            )
    return Tokenizer(tokenizer.fast, vocab)
