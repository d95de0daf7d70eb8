"""What a GGUF file says of itself, checked before any library reads it, and its tensors in float32.

The beginning of a file holds its metadata (the model's sizes and its tokenizer) and the name, type, shape and place of
every tensor. All of it is untrusted: counts, lengths and places are held against the file's size, since the package
`gguf` hangs on some damaged files of a few bytes. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

import re
import struct
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.model.files import config_file

AGAIN = "fetch the file again, or convert the model again with llama.cpp"
FOLDER = "give the model as a folder of `transformers` instead: --model ./folder"
MAGIC = b"GGUF"
LARGEST = 64 << 20  # bytes of metadata and tensor table; 262,144 types take a tenth
LONGEST = 1 << 20  # bytes of one string
MOST = {"tensors": 1 << 14, "entries of metadata": 1 << 12, "strings": 1 << 20}
SCALARS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
STRING, ARRAY = 8, 9
LENGTH = struct.Struct("<Q")
NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
TOKENS = tuple(f"tokenizer.ggml.{name}" for name in ("tokens", "scores", "token_type", "merges"))

# How text is cut before bytes are merged (`tokenizer.ggml.pre`): those that `transformers` knows.
CUTS = (
    "gpt-2", "smollm", "qwen2", "deepseek-r1-qwen", "llama-bpe", "llama3", "llama-v3", "tekken", "dbrx", "smaug-bpe",
)  # fmt: skip
# Keys of an architecture that change what the model computes, and the only values with which our config agrees.
PLAIN: dict[str, tuple[object, ...]] = {
    "rope.scaling.type": ("none",), "rope.scaling.factor": (0.0, 1.0), "rope.scaling.attn_factor": (1.0,),
    "rope.scale_linear": (0.0, 1.0), "rope.scaling.yarn_log_multiplier": (0.0,), "expert_count": (0,),
    "expert_used_count": (0,), "logit_scale": (1.0,), "residual_scale": (1.0,), "embedding_scale": (1.0,),
    "attention.causal": (True,), "attention.clamp_kqv": (0.0,), "attention.max_alibi_bias": (0.0,),
    "use_parallel_residual": (False,), "nextn_predict_layers": (0,), "attention.shared_kv_layers": (0,),
    "pooling_type": (0,), "attn_logit_softcapping": (0.0,), "final_logit_softcapping": (0.0,),
}  # fmt: skip
OWN: dict[str, dict[str, tuple[object, ...]]] = {  # the same of one architecture
    "gemma2": {"attn_logit_softcapping": (50.0,), "final_logit_softcapping": (30.0,)},
    "gemma3": {"rope.freq_base_swa": (1e4,), "attention.sliding_window_pattern": (6,)},
}
# Keys that are read, and keys that change nothing of what is computed; any other one is refused.
READ = (
    "block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon", "attention.sliding_window", "rope.dimension_count", "rope.freq_base",
)  # fmt: skip
HARMLESS = ("rope.scaling.finetuned", "rope.scaling.original_context_length", "tensor_data_layout")
ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3", "gpt2")
SCALED = (46, 62)  # layers of the two Gemmas of 27 B, whose attention is scaled by another number


class Tensor(NamedTuple):
    """A tensor's type by name, its shape with rows first, and its bytes in the file."""

    kind: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """A file's metadata and tensors."""

    path: Path
    metadata: dict[str, Any]  # numbers and strings by key; of an array, its length in words
    arrays: dict[str, list[Any]]  # the tokenizer's (``TOKENS``)
    tensors: dict[str, Tensor] = field(default_factory=dict)  # by name, in the file's order

    @property
    def architecture(self) -> str:
        return str(self.metadata["general.architecture"])

    def refusal(self, what: str, hint: str = FOLDER) -> UserError:
        """Return the error for a file that is not read."""
        return UserError(f"{self.path}: {what}", hint)

    def own(self, key: str, default: Any = None) -> Any:
        """Return the value of one of the architecture's keys."""
        return self.metadata.get(f"{self.architecture}.{key}", default)

    def size(self, key: str, default: int | None = None, most: int = 1 << 24) -> int:
        """Return one of the architecture's sizes. Raises ``UserError`` if it is missing or is none."""
        size = self.own(key, default)
        if type(size) is not int or not 1 <= size <= most:
            stated, wanted = f"{self.architecture}.{key} is {str(size)[:40]}", f"a whole number from 1 to {most:,}"
            raise UserError(f"{self.path}: {stated}; expected {wanted}", AGAIN)
        return size

    @property
    def layers(self) -> int:
        return self.size("block_count", most=config_file.SIZES[config_file.DEPTH[0]])

    @property
    def heads(self) -> tuple[int, int, int]:
        """How many heads attention has, how many of keys and values, and their width."""
        heads = self.size("attention.head_count")
        width = self.size("embedding_length") // heads
        width = self.size("attention.key_length", self.size("rope.dimension_count", width or 1))
        return heads, self.size("attention.head_count_kv", heads), width

    def tensor(self, name: str) -> np.ndarray:
        """Return a tensor in float32, rows first, as the package `gguf` dequantises it."""
        import gguf

        kind, shape, begin, end = self.tensors[name]
        dtype = {"F32": "<f4", "F16": "<f2"}.get(kind, "u1")
        raw = np.fromfile(self.path, dtype, (end - begin) // np.dtype(dtype).itemsize, offset=begin)
        with np.errstate(all="ignore"):  # numbers that are none are refused with the folder's
            dequantised = gguf.dequantize(raw.reshape(*shape[:-1], -1), gguf.GGMLQuantizationType[kind])
        return np.asarray(dequantised, dtype=np.float32).reshape(shape)

    @property
    def types(self) -> dict[str, int]:
        """How many numbers the file holds in each type, the most frequent type first."""
        counts: Counter[str] = Counter()
        for tensor in self.tensors.values():
            counts[tensor.kind] += prod(tensor.shape)
        return dict(counts.most_common())

    @property
    def bits(self) -> list[int]:
        """How many bits the numbers of the layers' matrices have, ascending; those of a block's scales don't count."""
        kinds = {t.kind for name, t in self.tensors.items() if name.startswith("blk.") and len(t.shape) > 1}
        return sorted({int(match[0]) for kind in kinds if (match := re.search(r"\d+", kind))})


def read(path: Path) -> Header:
    """Read the beginning of a GGUF file, and refuse what no run could read.

    Raises ``UserError`` if the file is no GGUF, is cut or damaged, or holds an architecture, a type of tensor or a
    tokenizer that is not known.
    """
    require_file(path)
    if not path.is_file():
        raise UserError(f"{path}: no such file", "give a .gguf file")
    length = path.stat().st_size
    with path.open("rb") as file:
        raw = file.read(LARGEST)
    if raw[:4] != MAGIC:
        raise UserError(f"{path}: not a GGUF file, which begins with the letters GGUF", "give a .gguf file")
    try:
        header = _Reader(raw, path).header(length)
    except (struct.error, IndexError):
        if length > LARGEST:
            raise UserError(f"{path}: its metadata takes more than {LARGEST >> 20} MiB", AGAIN) from None
        raise UserError(f"{path}: the file ends within its metadata, so it was cut", AGAIN) from None
    _check(header)
    return header


class _Reader:
    """A place in the beginning of a file; every read moves it, and raises ``IndexError`` behind the end."""

    def __init__(self, raw: bytes, path: Path):
        self.raw, self.path, self.at, self.strings = raw, path, 0, 0

    def _fault(self, what: str) -> UserError:
        return UserError(f"{self.path}: byte {self.at:,}: {what}", AGAIN)

    def _few(self, count: int, what: str) -> int:
        if count > MOST[what]:
            raise self._fault(f"says {count:,} {what}; at most {MOST[what]:,} are read")
        return count

    def number(self, form: str = "<Q") -> int:
        (number,) = struct.unpack_from(form, self.raw, self.at)
        self.at += struct.calcsize(form)
        return int(number)

    def texts(self, count: int) -> list[str]:
        raw, texts = self.raw, []
        for _ in range(count):
            (length,) = LENGTH.unpack_from(raw, self.at)
            if length > LONGEST:
                raise self._fault(f"a string of {length:,} bytes; at most {LONGEST:,} are read")
            begin = self.at + 8
            self.at = begin + length
            try:
                texts.append(raw[begin : self.at].decode())
            except UnicodeDecodeError:
                if self.at <= len(raw):
                    raise self._fault("a string that is no UTF-8") from None
        if self.at > len(raw):
            raise IndexError
        return texts

    def name(self, known: dict[str, Any], what: str) -> str:
        """Read the name of a key or tensor, which stands once."""
        [text] = self.texts(1)
        if not NAME.fullmatch(text) or text in known:
            raise self._fault(f"{text[:60]!r} {'stands twice' if text in known else f'is no name of a {what}'}")
        return text

    def header(self, length: int) -> Header:
        self.at = len(MAGIC)
        version = self.number("<I")
        if version not in (2, 3):
            form = "big-endian" if version and version & 0xFFFF == 0 else f"of version {version:,}"
            raise UserError(f"{self.path}: the file is {form}; little-endian files of versions 2 and 3 are read", AGAIN)
        count = self._few(self.number(), "tensors")
        header = Header(self.path, {}, {})
        for _ in range(self._few(self.number(), "entries of metadata")):
            name = self.name(header.metadata, "key")
            value: Any = self._value(self.number("<I"))
            if isinstance(value, list):
                header.arrays.update({name: value} if name in TOKENS else {})
                value = f"an array of {len(value)}"
            header.metadata[name] = value
        header.tensors.update(self._tensors(header, count, length))
        return header

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self.texts(1)[0]
        if kind != ARRAY:
            return self._numbers(kind, 1)[0]
        kind, count = self.number("<I"), self.number()
        if kind == ARRAY:
            raise self._fault("an array of arrays, which no model needs")
        if kind != STRING:
            return self._numbers(kind, count)
        self.strings = self._few(self.strings + count, "strings")
        return self.texts(count)

    def _numbers(self, kind: int, count: int) -> list[Any]:
        if kind not in SCALARS:
            raise self._fault(f"a value of type {kind:,}, which the format does not have")
        end = self.at + count * np.dtype(SCALARS[kind]).itemsize
        if end > len(self.raw):
            raise IndexError
        numbers = np.frombuffer(self.raw[self.at : end], SCALARS[kind])
        self.at = end
        if len(numbers) > MOST["strings"]:
            raise self._fault(f"an array of {len(numbers):,} numbers, which no tokenizer needs")
        return numbers.tolist()

    def _tensors(self, header: Header, count: int, length: int) -> dict[str, Tensor]:
        alignment = header.metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 1 <= alignment <= 1 << 20 or alignment & (alignment - 1):
            raise header.refusal(f"general.alignment is {str(alignment)[:40]}; expected a power of 2", AGAIN)
        plain: dict[str, Tensor] = {}
        for _ in range(count):
            name = self.name(plain, "tensor")
            if not 1 <= (dimensions := self.number("<I")) <= 4:
                raise self._fault(f"tensor {name} has {dimensions:,} dimensions")
            shape = [self.number() for _ in range(dimensions)]
            kind, begin = self.number("<I"), self.number()
            if kind not in (types := _types()):
                raise header.refusal(f"tensor {name} is of type {kind:,}, which `gguf` cannot dequantise")
            called, block, size = types[kind]
            if not all(1 <= n <= 1 << 32 for n in shape) or shape[0] % block:
                raise self._fault(f"tensor {name} is {shape} in {called}, which comes in blocks of {block}")
            if begin % alignment:
                raise self._fault(f"tensor {name} begins off the alignment of {alignment} bytes")
            plain[name] = Tensor(called, tuple(shape[::-1]), begin, begin + prod(shape) // block * size)
        start = self.at + -self.at % alignment
        absolute = {n: t._replace(begin=start + t.begin, end=start + t.end) for n, t in plain.items()}
        for name, tensor in absolute.items():
            if tensor.end > length:
                what = f"tensor {name} ends at byte {tensor.end:,}, the file at {length:,}: it was cut"
                raise header.refusal(what, AGAIN)
        for (name, one), (other, two) in pairwise(sorted(absolute.items(), key=lambda item: item[1].begin)):
            if two.begin < one.end:
                raise header.refusal(f"tensors {name} and {other} overlap", AGAIN)
        return absolute


@cache
def _types() -> dict[int, tuple[str, int, int]]:
    """Return what `gguf` dequantises: by number, a type's name, and the numbers and bytes of a block."""
    import gguf

    types = {}
    for kind, (block, size) in gguf.GGML_QUANT_SIZES.items():
        empty = np.zeros(size, np.uint8).view({"F32": "<f4", "F16": "<f2"}.get(kind.name, "u1"))
        try:
            gguf.dequantize(empty, kind)
        except NotImplementedError:
            continue
        types[int(kind)] = kind.name, block, size
    return types


def _check(header: Header) -> None:
    """Refuse an architecture, a tokenizer or an option that is not known, and what is missing."""
    metadata = header.metadata
    if (parts := metadata.get("split.count", 1)) not in (0, 1):
        raise header.refusal(f"a part of a model in {str(parts)[:20]} parts", "merge them: llama-gguf-split --merge")
    if (kind := metadata.get("general.architecture")) not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise header.refusal(f"architecture {str(kind)[:60]!r}; of GGUF files, {known} are read")
    for name, value in metadata.items():
        key = name.removeprefix(f"{kind}.")
        if key == name or key in (*READ, *HARMLESS):
            continue
        if value not in OWN.get(kind, {}).get(key, PLAIN.get(key, ())):
            raise header.refusal(f"{name} is {str(value)[:40]}, which is not read from a GGUF file")
    for key in ("rope.dimension_count", "attention.value_length"):
        if kind != "gpt2" and (value := header.own(key, header.heads[2])) != header.heads[2]:
            raise header.refusal(f"{kind}.{key} is {str(value)[:40]}; heads are {header.heads[2]} wide")
    for key in ("rope.freq_base", "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"):
        if type(value := header.own(key, 1.0)) is not float or not value > 0:
            raise header.refusal(f"{kind}.{key} is {str(value)[:40]}; expected a number above 0", AGAIN)
    _check_tokenizer(header)
    gemma, window = str(kind).startswith("gemma"), header.own("attention.sliding_window", 0)
    if gemma and header.layers in SCALED:
        raise header.refusal(f"a Gemma of {header.layers} layers, whose attention is scaled otherwise")
    if not gemma and window != 0:
        raise header.refusal(f"{kind}.attention.sliding_window is {str(window)[:40]}; only Gemma's is read")


def _check_tokenizer(header: Header) -> None:
    metadata, arrays = header.metadata, header.arrays
    model, cut = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if model not in ("llama", "gpt2"):
        raise header.refusal(f"tokenizer {str(model)[:60]!r}; llama (SentencePiece) and gpt2 (byte-level) are read")
    if model == "gpt2" and cut not in CUTS and not (cut is None and header.architecture in ("gpt2", "qwen2", "qwen3")):
        raise header.refusal(f"tokenizer.ggml.pre is {str(cut)[:60]!r}; known ways to cut text are {', '.join(CUTS)}")
    kinds = {"tokens": str, "scores": float, "token_type": int, "merges": str}
    for key in ("tokens", "token_type", "merges" if model == "gpt2" else "scores"):
        entries = arrays.get(f"tokenizer.ggml.{key}")
        if not entries or not isinstance(entries[0], kinds[key]):
            raise header.refusal(f"tokenizer.ggml.{key} is missing or of another type")
        if key != "merges" and len(entries) != len(arrays["tokenizer.ggml.tokens"]):
            raise header.refusal(f"tokenizer.ggml.{key} and tokenizer.ggml.tokens differ in length", AGAIN)
    types = len(arrays["tokenizer.ggml.tokens"])
    for key in ("bos", "eos", "unknown", "padding"):
        number = metadata.get(f"tokenizer.ggml.{key}_token_id", 0)
        if type(number) is not int or not 0 <= number < types:
            raise header.refusal(f"tokenizer.ggml.{key}_token_id is {str(number)[:40]}, none of {types} types", AGAIN)


def looks_like(name: str | Path) -> bool:
    """Return whether a name is that of a GGUF file."""
    return str(name).lower().endswith(".gguf")
