"""Small models of `transformers` with random weights: one of every row of ``families``, and some that have none."""

import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
import transformers

from data.train_transformer import tokenizer
from ff_memories.model import families
from ff_memories.model.transformer.describe import TransformerDescription, layers_of, positions_of
from ff_memories.model.transformer.hooked import HookedModel

LAYERS, MODEL, KEYS, HEADS, TYPES, LONGEST, START = 3, 48, 160, 4, 97, 60, 1

OLD = {"vocab_size": TYPES, "n_embd": MODEL, "n_layer": LAYERS, "n_head": HEADS, "n_inner": KEYS,
        "n_positions": LONGEST, "bos_token_id": START, "eos_token_id": START}  # fmt: skip
NEW = {"vocab_size": TYPES, "hidden_size": MODEL, "intermediate_size": KEYS, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "max_position_embeddings": LONGEST, "pad_token_id": None,
        "bos_token_id": START, "eos_token_id": START}  # fmt: skip
LLAMA = NEW | {"num_key_value_heads": 2}
GEMMA = LLAMA | {"pad_token_id": 0, "head_dim": 16}
GEMMA2 = GEMMA | {"query_pre_attn_scalar": 24, "sliding_window": LONGEST}
WORDS = "The cat runs far away. A dog sings to the red bird! Does the green bird sleep? It does, far away.\n" * 20

CONFIGS = {  # name -> model_type and what its config says
    "gpt2": ("gpt2", OLD),
    "opt": ("opt", {"vocab_size": TYPES, "hidden_size": MODEL, "ffn_dim": KEYS, "num_hidden_layers": LAYERS,
                    "num_attention_heads": HEADS, "max_position_embeddings": LONGEST, "word_embed_proj_dim": MODEL}),
    "gpt_neox": ("gpt_neox", NEW),
    "gpt_neox, sequential": ("gpt_neox", NEW | {"use_parallel_residual": False}),
    "llama": ("llama", LLAMA),
    "mistral": ("mistral", LLAMA | {"head_dim": 12, "sliding_window": LONGEST}),
    "qwen2": ("qwen2", LLAMA),
    "qwen3": ("qwen3", LLAMA | {"head_dim": 16}),
    "smollm3": ("smollm3", LLAMA),
    "olmo2": ("olmo2", LLAMA),
    "phi3": ("phi3", LLAMA),
    "gemma": ("gemma", GEMMA),
    "gemma2": ("gemma2", GEMMA2),
    "gemma3": ("gemma3_text", GEMMA2),
    "phi": ("phi", NEW),
    "gptj": ("gptj", OLD | {"rotary_dim": 8}),
    "falcon": ("falcon", {"vocab_size": TYPES, "hidden_size": MODEL, "ffn_hidden_size": KEYS,
                          "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "bos_token_id": START,
                          "eos_token_id": START, "max_position_embeddings": LONGEST}),
    "bloom": ("bloom", {"vocab_size": TYPES, "hidden_size": MODEL, "n_layer": LAYERS, "n_head": HEADS,
                        "bos_token_id": START, "eos_token_id": START, "pad_token_id": 0}),
}  # fmt: skip


def config(name, change=None):
    """Return a family's small config as `transformers` holds it, for eager attention."""
    kind, options = CONFIGS[name]
    made = transformers.CONFIG_MAPPING[kind](**options | (change or {}))
    made._attn_implementation = "eager"
    return made


def data(made):
    """Return a config as config.json has it."""
    return made.to_dict() | {"model_type": made.model_type}


def family(name):
    """Return a family's row."""
    return families.row(data(config(name)), name)


def model(name, dtype=torch.float32, seed=0, change=None):
    """Return a family's model with random weights; every parameter counts. ``change``: of its config."""
    made = getattr(transformers, family(name).architecture)(config(name, change))
    return drawn(made, seed).to(dtype)


def drawn(made, seed=0):
    """Fill a model with random weights; scales of norms stay around theirs."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(std=0.15) if p.dim() > 1 else p.add_(torch.randn_like(p) * 0.1)
    return made.eval().requires_grad_(False)


def layers_at(made):
    """Return the name of a model's list of layers."""
    return layers_of(made, made.config.num_hidden_layers)[0]


def description(made):
    """Return what a model is, as the model step writes it."""
    c = made.config
    keys = getattr(c, "intermediate_size", None) or getattr(c, "n_inner", None) or getattr(c, "ffn_dim", None)
    keys = getattr(c, "ffn_hidden_size", None) or keys or 4 * c.hidden_size
    return TransformerDescription(
        layers=c.num_hidden_layers, model=c.hidden_size, keys=keys, heads=c.num_attention_heads, vocab=c.vocab_size,
        input_cutoffs=(c.vocab_size,), adaptive_input=False, output_cutoffs=(c.vocab_size,), adaptive_output=False,
        learned_positions=False, final_norm=True, max_positions=positions_of(c) or LONGEST,
        embedding_scale=1.0, parameters=sum(p.numel() for p in made.parameters()), aliases={},
        model_type=c.model_type, start=START, config=data(c),
    )  # fmt: skip


def analysed(made, row=None, signs=1, precision="float32", start=START, device="cpu"):
    """Return a copy of a model with the product's loop around it."""
    row = row or families.row(data(made.config), "tiny")
    made = copy.deepcopy(made)
    made.to(device)
    return HookedModel(made, replace(description(made), gated=row.gated, start=start, signs=signs), row, precision)


class Truth(NamedTuple):
    """What `transformers` computes in a layer for one sentence by itself, (tokens, n) each."""

    residual: torch.Tensor
    coefficients: torch.Tensor
    update: torch.Tensor
    output: torch.Tensor


@torch.no_grad()
def alone(made, row, sentence):
    """Run one sentence, its start token in front, with eager attention; return each layer's truth and the logits.

    The residual is what the norm reads or, beside parallel attention, the layer's input plus attention's output.
    """
    seen, hooks = [{} for _ in range(made.config.num_hidden_layers)], []
    first = lambda found: (found[0] if isinstance(found, tuple) else found).detach().flatten(0, -2).clone()

    def keep(module, own, name, ours):
        def read(_, args, kwargs):
            own[name] = first(args or kwargs["hidden_states"])

        def found(_, args, out):
            own[name] = first(out)

        hooks.append(
            module.register_forward_pre_hook(read, with_kwargs=True) if ours else module.register_forward_hook(found)
        )

    for own, layer in zip(seen, made.get_submodule(layers_at(made)), strict=True):
        keep(layer.get_submodule(row.down), own, "m", True)
        keep(layer.get_submodule(row.norm_after or row.down), own, "y", False)
        keep(layer, own, "x", True)
        keep(layer, own, "o", False)
        if row.reads:
            keep(layer.get_submodule(row.reads), own, "r", True)
        else:
            keep(next(m for n, m in layer.named_children() if "att" in n and "norm" not in n), own, "a", False)
    tokens = torch.from_numpy(np.concatenate([[START], sentence]).astype(np.int64))
    try:
        out = made(input_ids=tokens[None].to(made.device), use_cache=False, output_hidden_states=True)
    finally:
        for hook in hooks:
            hook.remove()
    for own, below, above in zip(seen, out.hidden_states[:-1], out.hidden_states[1:], strict=True):
        assert torch.equal(own["x"], below[0])
        assert own is seen[-1] or torch.equal(own["o"], above[0])  # the last one stands behind the final norm
    truths = [Truth(own["r"] if "r" in own else own["x"] + own["a"], own["m"], own["y"], own["o"]) for own in seen]
    return truths, out.logits[0]


def run(analysed_model, sentences):
    """Return what the product sees in each layer for sentences that come by length, and the last layer's output."""
    batch, seen = analysed_model.pack(sentences), []
    x = analysed_model.embed(batch)
    for layer in analysed_model.layers:
        seen.append(layer(x, batch))
        x = seen[-1].output
    return seen, x


def save(folder, name="gpt2", types=300, seed=0, text=WORDS, shard=None, **change):
    """Write a family's model to a folder as `transformers` does, with a byte-level BPE tokenizer of its own.

    Args:
        types: what the model has; the tokenizer has as many, or fewer where the text yields no more merges.
        text: what the tokenizer learns from.
        shard: the largest weights file, such as ``50KB``; default: one file.
        change: of its config.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text").write_text(text, encoding="utf-8")
    learned = tokenizer(folder / "text", types)
    (folder / "text").unlink()
    made = model(name, seed=seed, change={"vocab_size": types, **change})
    transformers.utils.logging.disable_progress_bar()
    made.save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
    learned.save_pretrained(folder)
    return folder
