"""What a folder's safetensors say of themselves, held against config.json before a model is built or loaded.

A header is a few kilobytes at the beginning of a file. It names every tensor with its type, its shape and its place, so
a config.json that describes a larger model, or another one, is refused before memory is taken for it.
"""

import re
from collections import Counter
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
from ff_memories.model.files import config_file
from ff_memories.model.rows.families import Family, row

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
LARGEST = 4 << 20  # bytes of a header or an index; 128 layers take a tenth of it
SCANNED = 1 << 30  # bytes of weights that are read before a run, which takes about a second
CHUNK = 1 << 24
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I64": 8, "I32": 4, "I16": 2, "I8": 1,
         "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1}  # fmt: skip
EXPONENT = {  # where all bits of a number's exponent are set, it is infinite or none
    "F64": ("<u8", 0x7FF0000000000000),
    "F32": ("<u4", 0x7F800000),
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
}
EMBEDDINGS = re.compile(r"(^|\.)(wte|embed_tokens|embed_in|word_embeddings)\.weight$")
POSITIONS = re.compile(r"(^|\.)(wpe|embed_positions)\.weight$")
AGAIN = "fetch the model's files again, or save it again with model.save_pretrained(folder)"


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


def check(folder: Path, config: dict[str, Any], where: str) -> dict[str, Part]:
    """Return the tensors of a folder's safetensors, after holding them against the model's config.

    Args:
        folder: may lack the weights, as that of a model on the hub that is not fetched; then only the config's numbers
            are looked at, and nothing is returned.
        config: the content of config.json.
        where: the folder, for messages.

    Raises:
        UserError: a number in the config is out of range; a file is cut or damaged; or config and tensors differ in the
            number of layers or in sizes.
    """
    config_file.check_numbers(config, f"{where}/config.json")
    found = read(folder)
    try:
        family = row(config, where)
    except UserError:  # `model-row` looks for one
        return found
    if found:
        _compare(config, family, {name: part.shape for name, part in found.items()}, where)
    return found


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


def _compare(config: dict[str, Any], family: Family, shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Raise ``UserError`` where a config and the shapes of the weights differ in layers or sizes."""
    told = lambda names: config_file.size(config, names, f"{where}/config.json")
    depth, width, vocab = told(config_file.DEPTH), told(config_file.WIDTH), told(config_file.VOCAB)
    named = next((name for name in config_file.KEYS if config.get(name) is not None), None)
    keys = 4 * width if named is None and family.four_times else told(config_file.KEYS)
    layers = _layers(shapes, family)
    if sorted(layers) != list(range(depth)):
        there = f"{len(layers)} layers" if sorted(layers) == list(range(len(layers))) else f"the layers {_list(layers)}"
        raise UserError(f"{where}: config.json says {depth} layers, the weights have {there}", AGAIN)
    _alike(layers, where)
    first = layers[0]
    flip = -1 if family.transposed else 1
    wanted = {family.down: (width, keys)[::flip], family.up: ((2 if family.fused else 1) * keys, width)[::flip]}
    if family.gate is not None:
        wanted[family.gate] = (keys, width)
    for norm in (family.norm, family.norm_after):
        wanted |= {norm: (width,)} if norm is not None else {}
    for name, sizes in wanted.items():
        _same(first.get(f"{name}.weight"), sizes, f"{name}.weight", where)
    heads = told(config_file.HEADS)
    across = heads * (config.get("head_dim") or width // heads)
    if across not in {n for shape in first.values() for n in shape}:
        raise UserError(f"{where}: config.json says attention of {heads} heads, {across} wide; no weights are", AGAIN)
    shared = config.get("num_key_value_heads") or heads
    if heads % shared:
        raise UserError(f"{where}: config.json says {heads} heads of attention in {shared} groups", AGAIN)
    last = f"{family.final_norm}.weight"
    _same(next((s for n, s in shapes.items() if f".{last}".endswith(f".{n}")), None), (width,), last, where)
    for name in (name for name in shapes if POSITIONS.search(name)):
        rows = told(config_file.POSITIONS) + (family.positions or 0)
        _same(shapes[name], (rows, width), name, where)
    embedding = next((name for name in shapes if EMBEDDINGS.search(name)), "the embedding of tokens")
    _same(shapes.get(embedding), (vocab, config.get("word_embed_proj_dim") or width), embedding, where)


def _layers(shapes: Mapping[str, tuple[int, ...]], family: Family) -> dict[int, dict[str, tuple[int, ...]]]:
    """Return the shapes of each layer's weights, by number and by name within the layer."""
    found: dict[int, dict[str, tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        if parts := re.fullmatch(r"(?:.*?\.)??(0|[1-9]\d{0,5})\.(.+)", name):
            found.setdefault(int(parts[1]), {})[parts[2]] = shape
    return {number: own for number, own in sorted(found.items()) if f"{family.down}.weight" in own}


def _alike(layers: Mapping[int, dict[str, tuple[int, ...]]], where: str) -> None:
    """Raise ``UserError`` for a layer whose weights are not those of most layers."""
    kinds = Counter(tuple(sorted(own.items())) for own in layers.values())
    usual = dict(kinds.most_common(1)[0][0])
    for number, own in layers.items():
        for name in sorted(usual.keys() | own.keys()):
            if name not in own:
                raise UserError(f"{where}: layer {number} lacks {name}, which others have", AGAIN)
            if name not in usual:
                raise UserError(f"{where}: layer {number} has {name}, which others lack", AGAIN)
            if own[name] != usual[name]:
                raise UserError(f"{where}: {name} is {own[name]} in layer {number}, {usual[name]} in others", AGAIN)


def _same(found: tuple[int, ...] | None, wanted: tuple[int, ...], name: str, where: str) -> None:
    if found is None:
        raise UserError(f"{where}: the weights lack {name}", AGAIN)
    if found != wanted:
        raise UserError(f"{where}: {name} is {found}, by config.json {wanted}", AGAIN)


def _list(layers: Mapping[int, object]) -> str:
    shown = ", ".join(map(str, list(layers)[:5]))
    return f"{shown} …" if len(layers) > 5 else shown or "none"
