"""What a folder's safetensors say of themselves, held against the model of config.json before one is loaded.

A header is a few kilobytes at the beginning of a file. It names every tensor with its type, its shape and its place, so
a config.json that describes a larger model, or another one, is refused before memory is taken for it.
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
LARGEST = 4 << 20  # bytes of a header or an index; 128 layers take a tenth of it
SCANNED = 1 << 30  # bytes of weights that are read before a run, which takes about a second
CHUNK = 1 << 24
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1,
         "F8_E5M2FNUZ": 1, "F4": 0.5, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1,
         "BOOL": 1}  # fmt: skip
EXPONENT = {  # where all bits of a number's exponent are set, it is infinite or none
    "F64": ("<u8", 0x7FF0000000000000),
    "F32": ("<u4", 0x7F800000),
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
}
_INNER = "_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module"
WRAPPERS = (rf"^(?:(?:module|{_INNER})\.)+", rf"(?<=\.)(?:{_INNER})\.")  # of torch: no names of a model's weights
CONSTANTS = (r"\.attn\.(bias|masked_bias)$", r"rotary_emb\.inv_freq$")  # that older versions saved with the weights
AGAIN = "fetch the model's files again, or save it again with model.save_pretrained(folder)"
PLAIN = "give the model in float32, float16 or bfloat16"
# What a tensor that the model lacks is the mark of: what the folder holds, and the way out.
MARKS = (
    (
        r"\.lora_|\.modules_to_save\.",
        "an adapter beside its model",
        "merge it: model.merge_and_unload().save_pretrained(folder), with the library that made it",
    ),
    (
        r"_scale(_inv|_2)?$|\.(qweight|qzeros|scales|g_idx|SCB|absmax|quant_map|weight_(packed|zero_point))\b",
        "quantised weights",
        PLAIN,
    ),
    (
        r"^(score|classifier|qa_outputs|classification_head|regression_head)\.",
        "a classifier, whose output is labels, not next tokens",
        "use the language model that it was trained from",
    ),
    (
        r"^(v_head|value_head|multiple_choice_head)\.",
        "a language model with another head beside its own",
        "keep the language model alone: {save}",
    ),
)
SAVE = (
    'python -c "from transformers import AutoModelForCausalLM as M, AutoTokenizer as T; '
    "M.from_pretrained('{where}'{more}).save_pretrained('language-model'); "
    "T.from_pretrained('{where}').save_pretrained('language-model')\", then --model ./language-model"
)
RENAME = (
    'python -c "from pathlib import Path; from safetensors.torch import load_file, save_file; '
    "[save_file({{n.removeprefix('{prefix}'): t for n, t in load_file(f).items()}}, f, {{'format': 'pt'}}) "
    "for f in Path('{where}').glob('*.safetensors')]\""
)


class Index(BaseModel):
    """Which file holds each tensor."""

    weight_map: dict[str, str]


class Part(NamedTuple):
    """A tensor in a file: its type, its shape, and the bytes that hold it."""

    dtype: str
    shape: tuple[int, ...]
    file: Path
    begin: int
    end: int


def read(folder: Path) -> dict[str, Part]:
    """Return the tensors of a folder's safetensors by name; none where weights are missing or pickled.

    Raises:
        UserError: a header is damaged, or a file is not as long as its header says.
    """
    found: dict[str, Part] = {}
    for file in files(folder):
        if not file.is_file():
            require_file(file)
            return {}
        for name, part in _header(file).items():
            if name in found:
                raise UserError(f"{file}: {name} is in {found[name].file.name} as well", AGAIN)
            found[name] = part
    return found


def files(folder: Path) -> list[Path]:
    """Return the safetensors that hold a folder's weights, as `transformers` chooses them; some may be missing."""
    if (folder / SINGLE).exists():
        return [folder / SINGLE]
    return [folder / name for name in sorted(shards(folder / INDEX))] if (folder / INDEX).exists() else []


def shards(index: Path) -> set[str]:
    """Return the names of the files that an index of weights names. Raises ``UserError`` where it is no index."""
    found = {*foreign.read_json(index, Index, "fetch the file again").weight_map.values()}
    for name in found:
        if "/" in name or not name.endswith(".safetensors"):
            raise UserError(f"{index}: names {name!r}, which is not a safetensors file beside it", AGAIN)
    return found


def refuse_odd_numbers(parts: Mapping[str, Part]) -> None:
    """Raise ``UserError`` for weights that are infinite or no numbers; more than ``SCANNED`` bytes are not read."""
    if sum(part.end - part.begin for part in parts.values()) > SCANNED:
        return
    for name, part in parts.items():
        if part.dtype in EXPONENT and not _finite(part):
            raise UserError(f"{part.file}: {name} has weights that are infinite or no numbers", "use another model")


def _finite(part: Part) -> bool:
    kind, exponent = EXPONENT[part.dtype]
    mask = np.array(exponent, dtype=kind)
    with part.file.open("rb") as file:
        file.seek(part.begin)
        for begin in range(part.begin, part.end, CHUNK):
            held = np.frombuffer(file.read(min(CHUNK, part.end - begin)), dtype=kind)
            if ((held & mask) == mask).any():
                return False
    return True


def _header(path: Path) -> dict[str, Part]:
    """Return the tensors that a file's header names; the file must hold just these."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise UserError(f"{path}: cut, or not safetensors", AGAIN)
        if length > LARGEST:
            raise UserError(f"{path}: its header is larger than {LARGEST >> 20} MiB", AGAIN)
        raw = file.read(length)
    try:
        plain = foreign.json_of(raw, f"{path}: its header is damaged", dict[str, Any], AGAIN, text=True)
        found = {name: _part(path, 8 + length, given) for name, given in plain.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: its header is damaged ({str(error)[:100]})", AGAIN) from None
    ends = sorted((part.begin, part.end) for part in found.values())
    if ends and ends[-1][1] > size:
        raise UserError(f"{path}: cut: {size:,} bytes, and its header tells of {ends[-1][1]:,}", AGAIN)
    places = [(8 + length, 8 + length), *ends, (size, size)]
    if any(end != begin for (_, end), (begin, _) in pairwise(places)):
        raise UserError(f"{path}: its tensors overlap, or leave gaps", AGAIN)
    return found


def _part(path: Path, at: int, given: dict[str, Any]) -> Part:
    shape, (begin, end) = tuple(given["shape"]), given["data_offsets"]
    if not all(type(n) is int and n >= 0 for n in (*shape, begin, end)):
        raise ValueError("a size is not a whole number")
    if prod(shape) * BYTES[given["dtype"]] != end - begin:
        raise ValueError(f"{begin} to {end} are not the bytes of {shape} {given['dtype']}")
    return Part(given["dtype"], shape, path, at + begin, at + end)


def compare(stored: Mapping[str, Part], model: Any, path: str, where: str) -> None:
    """Hold the tensors of a folder against the model that its config.json describes.

    Args:
        model: made of config.json by `transformers`, without memory for its weights.
        path: the name of the list of its layers.
        where: the folder, for messages.

    Raises:
        UserError: the files hold other tensors, of other shapes or of types that are no weights.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming, rename_source_key

    wanted = model.state_dict()
    renamings = [r for r in get_model_conversion_mapping(model) if isinstance(r, WeightRenaming)]
    prefix = model.base_model_prefix
    plain = {name: re.sub("|".join(WRAPPERS), "", name) for name in stored}
    loaded = {n: rename_source_key(own, renamings, [], prefix, wanted)[0] for n, own in plain.items()}
    parts = {loaded[name]: part for name, part in stored.items()}
    ignored = (*CONSTANTS, *(model._keys_to_ignore_on_load_unexpected or ()))
    more = [name for name in parts if name not in wanted and not any(re.search(mark, name) for mark in ignored)]
    for mark, what, fix in MARKS:
        if marked := next((name for name in more if re.search(mark, name)), None):
            raise UserError(f"{where}: {what} ({marked})", fix.format(save=SAVE.format(where=where, more="")))
    lacking = sorted(wanted.keys() - parts.keys() - model.all_tied_weights_keys.keys())
    for name in lacking:
        if prefix := next((n.removesuffix(name) for n in stored if n.endswith(f".{name}")), None):
            raise UserError(
                f"{where}: the names of its weights begin with {prefix}", RENAME.format(prefix=prefix, where=where)
            )
    layers = {int(n) for name in parts for n in re.findall(rf"^{re.escape(path)}\.(\d{{1,6}})\.", name)}
    if layers != set(range(depth := len(model.get_submodule(path)))):
        there = f"{len(layers)} layers" if layers == set(range(len(layers))) else f"the layers {_list(sorted(layers))}"
        raise UserError(f"{where}: config.json says {depth} layers, the weights have {there}", AGAIN)
    if lacking:
        raise UserError(f"{where}: the weights lack {lacking[0]}", AGAIN)
    if more:
        raise UserError(f"{where}: has {min(more)}, which no {type(model).__name__} of this config.json has", AGAIN)
    for name, part in parts.items():
        if name in wanted and part.shape != (shape := tuple(wanted[name].shape)):
            raise UserError(f"{where}: {name} is {part.shape}, by config.json {shape}", AGAIN)
        if name in wanted and part.dtype not in EXPONENT:
            fix = SAVE.format(where=where, more=", dtype='float32'") if part.dtype.startswith("F8") else PLAIN
            raise UserError(f"{where}: {name} is of type {part.dtype}, no float of 16 bits or more", fix)


def _list(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return f"{shown} …" if len(numbers) > 5 else shown or "none"
