"""OPT is of the paper's kind: its weights from `transformers` under the product's names, for the product's decoder."""

import torch

from ff_memories.model.decoder import Decoder
from ff_memories.model.files.converted import Description


def as_decoder(made, dtype=torch.float32):
    """Return an OPT model as a ``Decoder``: it begins with </s> = 2, and its positions have fairseq's offset of 2."""
    c, state = made.config, made.state_dict()
    take = lambda name: state["model.decoder." + name].to(dtype)
    weights = {}
    for i in range(c.num_hidden_layers):
        at, own = f"layers.{i}.", lambda name, i=i: take(f"layers.{i}.{name}")
        for kind in ("weight", "bias"):
            weights[f"{at}qkv.{kind}"] = torch.cat([own(f"self_attn.{p}_proj.{kind}") for p in "qkv"])
            weights[f"{at}attention_norm.{kind}"] = own(f"self_attn_layer_norm.{kind}")
            weights[f"{at}attention_out.{kind}"] = own(f"self_attn.out_proj.{kind}")
            weights[f"{at}norm.{kind}"] = own(f"final_layer_norm.{kind}")
        weights[at + "keys"], weights[at + "key_bias"] = own("fc1.weight"), own("fc1.bias")
        weights[at + "values"], weights[at + "value_bias"] = own("fc2.weight").t(), own("fc2.bias")
    weights["input.0.embedding"] = weights["output.head"] = take("embed_tokens.weight")
    weights["positions"] = take("embed_positions.weight")
    for kind in ("weight", "bias"):
        weights[f"final_norm.{kind}"] = take(f"final_layer_norm.{kind}")
    vocab, model = weights["output.head"].shape
    description = Description(
        layers=c.num_hidden_layers, model=model, keys=c.ffn_dim, heads=c.num_attention_heads, vocab=vocab,
        input_cutoffs=(vocab,), adaptive_input=False, output_cutoffs=(vocab,), adaptive_output=False,
        learned_positions=True, final_norm=True, max_positions=len(weights["positions"]) - 2, embedding_scale=1.0,
        parameters=sum(p.numel() for p in made.parameters()), aliases={},
    )  # fmt: skip
    return Decoder(description, weights, dtype=dtype)
