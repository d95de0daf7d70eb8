"""Small GGUF files, written by the package `gguf` as llama.cpp's converter writes a model of `transformers`."""

import json

import gguf
import numpy as np
import tiny
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3", "gpt2")
CONTROL, BYTE, NORMAL = 3, 6, 1


def byte_level(text, types):
    """Return a byte-level tokenizer that learned from a text, as the metadata has it."""
    learned = tokenizers.Tokenizer(models.BPE())
    learned.pre_tokenizer, learned.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<|endoftext|>", "<|start|>"]
    sizes = {"vocab_size": types, "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    learned.train_from_iterator([text], trainers.BpeTrainer(special_tokens=special, show_progress=False, **sizes))
    ours = sorted(learned.get_vocab(), key=learned.get_vocab().get)
    merges = [" ".join(pair) for pair in json.loads(learned.to_str())["model"]["merges"]]
    return learned, {
        "model": "gpt2", "pre": "gpt-2", "tokens": ours, "merges": merges,
        "token_type": [CONTROL if t in special else NORMAL for t in ours],
    }  # fmt: skip


def sentence_piece(text, types):
    """Return pieces of a text with scores, and a piece for every byte, as the metadata has them."""
    learned = tokenizers.Tokenizer(models.BPE())
    special = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    learned.pre_tokenizer = pre_tokenizers.Metaspace()
    learned.train_from_iterator(
        [text], trainers.BpeTrainer(vocab_size=types, special_tokens=special, show_progress=False)
    )
    ours = sorted(learned.get_vocab(), key=learned.get_vocab().get)
    kinds = [CONTROL if n < 3 else BYTE if n < 259 else NORMAL for n in range(len(ours))]
    return {
        "model": "llama", "tokens": ours, "token_type": kinds, "unknown": 0, "bos": 1, "eos": 2,
        "scores": [0.0 if kind != NORMAL else float(259 - n) for n, kind in enumerate(kinds)],
    }  # fmt: skip


def permuted(weight, heads):
    """Return rows of queries or keys in the order of llama.cpp."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def save(path, name="llama", kind="F32", words=None, change=None, made=None, seed=0, template=None):
    """Write a family's small model to a GGUF file; return the model.

    Args:
        kind: type of its matrices; norms and biases are in float32.
        words: the tokenizer's metadata; default: a byte-level one that learned from ``tiny.WORDS``.
        change: of the model's config.
        made: the model itself.
        template: a chat template.
    """
    words = words or byte_level(tiny.WORDS, 300)[1]
    options = {"vocab_size": len(words["tokens"]), **({"query_pre_attn_scalar": 16} if "gemma" in name else {})}
    made = made or tiny.model(name, seed=seed, change={**options, **(change or {})})
    c, arch = made.config, name
    out = gguf.GGUFWriter(path, arch)
    out.add_context_length(c.max_position_embeddings)
    out.add_embedding_length(c.hidden_size)
    out.add_block_count(c.num_hidden_layers)
    out.add_feed_forward_length(c.n_inner if name == "gpt2" else c.intermediate_size)
    out.add_head_count(c.num_attention_heads)
    if name == "gpt2":
        out.add_layer_norm_eps(c.layer_norm_epsilon)
    else:
        out.add_head_count_kv(c.num_key_value_heads)
        out.add_layer_norm_rms_eps(c.rms_norm_eps)
        theta = c.rope_parameters.get("full_attention", c.rope_parameters)["rope_theta"]
        out.add_rope_freq_base(theta)
        out.add_key_length(c.head_dim if getattr(c, "head_dim", None) else c.hidden_size // c.num_attention_heads)
    if "gemma" in name:
        out.add_sliding_window(c.sliding_window)
    out.add_tokenizer_model(words["model"])
    if "pre" in words:
        out.add_tokenizer_pre(words["pre"])
    out.add_token_list(words["tokens"])
    out.add_token_types(words["token_type"])
    if "merges" in words:
        out.add_token_merges(words["merges"])
    if "scores" in words:
        out.add_token_scores(words["scores"])
    if template is not None:
        out.add_chat_template(template)
    out.add_bos_token_id(words.get("bos", 1))
    out.add_eos_token_id(words.get("eos", 0))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], c.num_hidden_layers)
    state = {
        n: t.numpy() for n, t in made.state_dict().items() if not (c.tie_word_embeddings and n == "lm_head.weight")
    }
    for own, weight in state.items():
        module, _, end = own.rpartition(".")
        called = f"{names.get_name(module)}.{end}"
        if arch == "llama" and ("attn_q." in called or "attn_k." in called):
            weight = permuted(weight, c.num_attention_heads if "attn_q." in called else c.num_key_value_heads)
        if "gemma" in name and called.endswith("norm.weight"):
            weight = weight + 1
        if name == "gpt2" and called.startswith("blk.") and weight.ndim == 2:
            weight = np.ascontiguousarray(weight.T)
        own_kind = gguf.GGMLQuantizationType[kind if weight.ndim == 2 else "F32"]
        out.add_tensor(called, gguf.quantize(weight, own_kind), raw_dtype=own_kind)
    _finish(out)
    return made


def copy(path, to, keys, tensor=lambda t: (t.data, t.tensor_type), without=""):
    """Copy a GGUF file of a Llama with keys changed or added, {key: (value, type, type of its parts)}.

    Args:
        tensor: returns the data and the type that a tensor has in the copy.
        without: the name of a tensor that is left out.
    """
    there, out = gguf.GGUFReader(path), gguf.GGUFWriter(to, "llama")
    del out.kv_data[0]["general.architecture"]
    own = {f.name: (f.contents(), f.types[0], f.types[-1]) for f in there.fields.values() if "GGUF." not in f.name}
    for name, (value, kind, parts) in (own | keys).items():
        out.add_key_value(name, value, kind, parts)
    for t in there.tensors:
        if t.name != without:
            data, kind = tensor(t)
            out.add_tensor(t.name, data, raw_dtype=kind)
    _finish(out)


def _finish(out):
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
