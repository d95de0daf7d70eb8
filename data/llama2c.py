"""A model of llama2.c (`stories15M`): its first format, with the tokenizer's file behind the model's.

Seven sizes, then float32 matrices layer after layer, of one kind at a time; then the tokenizer: a score, a length and
the text of each type. https://github.com/karpathy/llama2.c (`run.c`, `tokenizer.py`).
"""

import struct
from math import prod
from pathlib import Path

import numpy as np

from ff_memories.base.errors import UserError
from ff_memories.inputs import from_gguf
from ff_memories.inputs.model_folder import ConvertedModel

CONTROL, BYTE, NORMAL = 3, 6, 1  # kinds of types, as a GGUF file numbers them
SPECIAL = ["<unk>", "<s>", "</s>"]


def model(path: Path) -> ConvertedModel:
    """Return the model of a file. Raises ``UserError`` if its sizes are not the file's."""
    raw = path.read_bytes()
    width, keys, layers, heads, shared, types, longest = struct.unpack_from("<7i", raw)
    head = width // max(1, heads)
    if min(width, keys, layers, heads, shared, types, longest) < 1 or heads * head != width:
        raise UserError(f"{path}: not a model of llama2.c", "fetch the file again")
    kinds = {  # in the file's order; a layer's matrices behind one another
        "model.embed_tokens": (types, width),
        "input_layernorm": (layers, width),
        "self_attn.q_proj": (layers, width, width),
        "self_attn.k_proj": (layers, shared * head, width),
        "self_attn.v_proj": (layers, shared * head, width),
        "self_attn.o_proj": (layers, width, width),
        "post_attention_layernorm": (layers, width),
        "mlp.gate_proj": (layers, keys, width),
        "mlp.down_proj": (layers, width, keys),
        "mlp.up_proj": (layers, keys, width),
        "model.norm": (width,),
        "angles of the rotation": (longest, head),
    }
    places, at = {}, 28
    for name, shape in kinds.items():
        places[name], at = at, at + 4 * prod(shape)
    if at > len(raw):
        raise UserError(f"{path}: the file was cut", "fetch the file again")
    del kinds["angles of the rotation"]

    def tensor(name: str) -> np.ndarray:
        layer, _, part = name.removeprefix("model.layers.").removesuffix(".weight").partition(".")
        part, number = (part, int(layer)) if layer.isdecimal() else (f"{layer}.{part}", 0)
        shape = kinds[part][-2:] if part.endswith("proj") or "embed" in part else kinds[part][-1:]
        weights = np.frombuffer(raw, "<f4", prod(shape), places[part] + 4 * number * prod(shape)).reshape(shape)
        return from_gguf.halves_apart(weights, head) if part.endswith(("q_proj", "k_proj")) else weights

    inside = [name for name in kinds if not name.startswith("model.")]
    names = ["model.embed_tokens", "model.norm", *(f"model.layers.{n}.{i}" for n in range(layers) for i in inside)]
    config = {
        "model_type": "llama",
        "vocab_size": types,
        "dtype": "float32",
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_size": width,
        "intermediate_size": keys,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "max_position_embeddings": longest,
        "rope_theta": 1e4,
        "rms_norm_eps": 1e-5,
    }
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    return ConvertedModel(
        config,
        [f"{name}.weight" for name in names],
        tensor,
        _tokenizer(raw[at:], types, path),
        special,
        {},
        sum(map(prod, kinds.values())),
    )


def _tokenizer(raw: bytes, types: int, path: Path) -> str:
    scores, tokens, at = [], list(SPECIAL), 4  # behind the length of the longest type
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]  # the file has special types and bytes in plain text
    try:
        for number in range(types):
            score, length = struct.unpack_from("<fi", raw, at)
            scores.append(score)
            at += 8 + length
            if number >= len(SPECIAL) + 256:
                tokens.append(raw[at - length : at].decode().replace(" ", "▁"))
    except (struct.error, UnicodeDecodeError):
        raise UserError(f"{path}: the tokenizer's file was cut", "fetch the file again") from None
    kinds = [CONTROL] * 3 + [BYTE] * 256 + [NORMAL] * (types - 259)
    entries = {"tokenizer_type": "llama", "tokens": tokens, "scores": scores, "token_type": kinds}
    return from_gguf.tokenizer_of("llama", entries, path)
