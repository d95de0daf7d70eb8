"""A model in a GGUF file: dequantised to float32, with the config and the tokenizer that the file's metadata describe.

`llama.cpp`'s converter changed some tensors on their way into the file; ``tensor`` changes them back. The tokenizer is
the one that `transformers` makes of the same metadata. The file's chat template is not used.
"""

import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ff_memories.base.errors import UserError
from ff_memories.base.files import alone, require_file, sha256
from ff_memories.inputs import model_folder
from ff_memories.inputs.model_folder import ConvertedModel
from ff_memories.model import families
from ff_memories.model.files import config_file, gguf_file
from ff_memories.model.files.gguf_file import Header

TYPES = {"gemma3": "gemma3_text"}  # type in `transformers`, where it has another name


def folder(path: Path, wanted: str | None = None) -> Path:
    """Return the folder that a GGUF file is converted to, after converting it if that was not done before.

    Raises ``UserError`` where the file is refused (``gguf_file.read``), its SHA-256 is not the ``wanted`` one, or disk
    or memory are too small.
    """
    require_file(path)
    if wanted is not None and model_folder.is_converted(there := model_folder.converted(wanted), wanted):
        return there
    header = gguf_file.read(path)
    digest = sha256(path)
    if wanted not in (None, digest):
        hint = "fetch the file again, or write the config again: ff-memories init"
        raise UserError(f"{path}: its SHA-256 is {digest}, the config's model.files says {wanted}", hint)
    target = model_folder.converted(digest)
    with alone(target):  # a second run waits for the first
        if not model_folder.is_converted(target, digest):
            found, description = model(header), f"a {header.architecture} model in {', '.join(header.types)}"
            print(f"{path.name}: {description}; converted to {target}", file=sys.stderr)
            model_folder.write_converted(found, target, path.name, digest)
    return target


def model(header: Header) -> ConvertedModel:
    """Return a file's model, as its folder is written."""
    names = tensors(header)
    types = header.arrays["tokenizer.ggml.tokens"]
    numbers = {word: _special(header, word) for word in ("bos", "eos")}
    special = {f"{word}_token": types[number] for word, number in numbers.items() if number is not None}
    if header.architecture != "llama":  # else `transformers` builds it anew as that family's class does
        special["tokenizer_class"] = "PreTrainedTokenizerFast"
    told = {
        "types": header.types,
        "bits": header.bits,
        "licence": header.metadata.get("general.license"),
        "chat_template": "tokenizer.chat_template" in header.metadata,
    }

    def read(own: str) -> np.ndarray:
        return tensor(header, names[own])

    size = sum(prod(t.shape) for t in header.tensors.values())
    return ConvertedModel(config(header), list(names), read, tokenizer(header), special, told, size)


def tensors(header: Header) -> dict[str, str]:
    """Return the names that the file has for the tensors of a model of its sizes, by their names in `transformers`.

    Raises ``UserError`` where a tensor is missing, has another shape, or is none of the model's.
    """
    import gguf

    from ff_memories.model.transformer import load  # the library takes seconds to load

    path, kind, content = header.path, header.architecture, config(header)
    config_file.check_numbers(content, str(path))
    made = load.without_weights(content, families.row(content, str(path)).architecture, str(path))
    number = next(number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    known, names = gguf.get_tensor_name_map(number, header.layers), {}
    for own, weight in made.named_parameters():
        name = names[own] = str(known.get_name(own, try_suffixes=(".weight", ".bias")))
        if name not in header.tensors:
            raise UserError(f"{path}: tensor {name} is missing", gguf_file.AGAIN)
        shape, actual = tuple(weight.shape), header.tensors[name].shape
        if transposed(header, name):
            shape = shape[::-1]
        if actual != shape:
            raise UserError(f"{path}: tensor {name} is {actual}, by the metadata {shape}", gguf_file.AGAIN)
    if odd := header.tensors.keys() - names.values():
        other = f"none of a {kind} model of {header.layers} layers, so the model would not be the file's"
        raise UserError(f"{path}: tensor {min(odd)} is {other}", gguf_file.FOLDER)
    return names


def _special(header: Header, word: str) -> int | None:
    return header.metadata.get(f"tokenizer.ggml.{word}_token_id")


def config(header: Header) -> dict[str, Any]:
    """Return the content of config.json."""
    (heads, shared, width), kind = header.heads, header.architecture
    d, f, positions = map(header.size, ("embedding_length", "feed_forward_length", "context_length"))
    plain = {
        "model_type": TYPES.get(kind, kind),
        "vocab_size": header.size("vocab_size", len(header.arrays["tokenizer.ggml.tokens"])),
        "dtype": "float32",
        "tie_word_embeddings": "output.weight" not in header.tensors,
        **{f"{word}_token_id": _special(header, word) for word in ("bos", "eos")},
    }
    if kind == "gpt2":
        return plain | {
            "n_embd": d,
            "n_inner": f,
            "n_layer": header.layers,
            "n_head": heads,
            "n_positions": positions,
            "layer_norm_epsilon": header.own("attention.layer_norm_epsilon", 1e-5),
        }
    plain |= {
        "hidden_size": d,
        "intermediate_size": f,
        "num_hidden_layers": header.layers,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "head_dim": width,
        "max_position_embeddings": positions,
        "rope_theta": header.own("rope.freq_base", 1e4),
        "rms_norm_eps": header.own("attention.layer_norm_rms_epsilon", 1e-6),
    }
    if kind.startswith("gemma"):
        plain |= {"sliding_window": header.size("attention.sliding_window"), "query_pre_attn_scalar": width}
    return plain


def tensor(header: Header, name: str) -> np.ndarray:
    """Return a tensor in float32 as `transformers` has it.

    In a file of a Llama the rows of a head's queries and keys alternate between the halves that rotation pairs; scales
    of Gemma's norms have 1 added; matrices of GPT-2 are transposed.
    """
    weights, kind = header.tensor(name), header.architecture
    if kind == "llama" and name.endswith((".attn_q.weight", ".attn_k.weight")):
        return halves_apart(weights, header.heads[2])
    if kind.startswith("gemma") and name.endswith("norm.weight"):
        return weights - np.float32(1)
    return weights.T if transposed(header, name) else weights


def transposed(header: Header, name: str) -> bool:
    """Return whether a tensor is a matrix of GPT-2's layers, which `transformers` has as (inputs, outputs)."""
    return header.architecture == "gpt2" and name.startswith("blk.") and len(header.tensors[name].shape) == 2


def halves_apart(rows: np.ndarray, width: int) -> np.ndarray:
    """Return rows of queries or keys, (heads x width, d), with each head's even rows before its odd ones."""
    return rows.reshape(-1, width // 2, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def tokenizer(header: Header) -> str:
    """Return the content of tokenizer.json. Raises ``UserError`` where the file's types and merges make none."""
    kind = header.architecture
    entries: dict[str, Any] = {name.rpartition(".")[2]: array for name, array in header.arrays.items()}
    cut = header.metadata.get("tokenizer.ggml.pre") or ("qwen2" if kind.startswith("qwen") else None)
    special = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    entries |= {
        "tokenizer_type": header.metadata["tokenizer.ggml.model"],
        "pre_tokenizer_type": cut,
        "add_prefix_space": header.metadata.get("tokenizer.ggml.add_space_prefix"),
        **{f"{short}_token_id": _special(header, word) for short, word in special.items()},
    }
    return tokenizer_of(kind, entries, header.path)


def tokenizer_of(kind: str, found: dict[str, Any], path: Path) -> str:
    """Return the content of tokenizer.json for what a file says of its tokenizer, by the names of `transformers`."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import convert_gguf_tokenizer

    if len(set(types := found["tokens"])) < len(types):
        raise UserError(f"{path}: the tokenizer has a type twice", gguf_file.AGAIN)
    try:
        converted, _ = convert_gguf_tokenizer(kind, found)
    except Exception as error:  # `tokenizers` raises plain Exception
        raise UserError(f"{path}: no tokenizer can be made of it ({str(error)[:200]})", gguf_file.AGAIN) from None
    return str(converted.to_str(pretty=True))
