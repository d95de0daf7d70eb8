"""Where the memories are in each family of `transformers` models: one row per ``model_type``.

A row is a claim about the model's code. ``proof.prove`` checks it against the loaded weights, in every layer, before
anything is measured.
"""

from dataclasses import dataclass, replace
from typing import Literal

from ff_memories.base.errors import UserError

# How the feed-forward layer stands in its block. ``sequential``: o = r + y, and the feed-forward layer reads r.
# ``parallel``: o = r + y as well, but the feed-forward layer reads the block's input, beside attention.
Wiring = Literal["sequential", "parallel"]


@dataclass(frozen=True)
class Family:
    """A row. Modules are named within one layer, except ``final_norm``, which is named within the model."""

    architecture: str  # class of `transformers` that holds the model
    down: str  # the matrix whose input is the memory coefficients and whose rows (columns) are the values
    up: str  # the matrix that makes the coefficients, with ``gate`` if there is one: f(up), or f(gate) * up
    activation: str  # the module f
    norm: str | None  # the norm whose output ``up`` reads; ``None``: ``up`` reads the residual itself
    reads: str | None  # the module whose input is r; ``None``: r = o - y
    final_norm: str  # the norm before the output layer
    gate: str | None = None
    fused: bool = False  # whether gate and up are one matrix, the gate first
    norm_after: str | None = None  # the norm that the output of ``down`` goes through before it is added
    wiring: Wiring = "sequential"
    packed: bool = True  # whether the family takes an attention function of ours: sentences then run without padding
    positions: int | None = None  # rows before the first position's in a table of learned ones; ``None``: no such table
    choices: tuple[tuple[str, object], ...] = ()  # options of ``config.json`` that the row needs, and their value

    @property
    def gated(self) -> bool:
        """Whether coefficients are f(gate) * up, so both signs matter."""
        return self.gate is not None or self.fused


_LLAMA = Family(
    "LlamaForCausalLM", down="mlp.down_proj", up="mlp.up_proj", gate="mlp.gate_proj", activation="mlp.act_fn",
    norm="post_attention_layernorm", reads="post_attention_layernorm", final_norm="model.norm",
)  # fmt: skip
_GEMMA2 = replace(
    _LLAMA, architecture="Gemma2ForCausalLM", norm="pre_feedforward_layernorm", reads="pre_feedforward_layernorm",
    norm_after="post_feedforward_layernorm",
)  # fmt: skip
_NEOX = Family(
    "GPTNeoXForCausalLM", down="mlp.dense_4h_to_h", up="mlp.dense_h_to_4h", activation="mlp.act",
    norm="post_attention_layernorm", reads=None, final_norm="gpt_neox.final_layer_norm", wiring="parallel",
    choices=(("use_parallel_residual", True),),
)  # fmt: skip

FAMILIES: dict[str, tuple[Family, ...]] = {
    "gpt2": (
        Family("GPT2LMHeadModel", down="mlp.c_proj", up="mlp.c_fc", activation="mlp.act", norm="ln_2", reads="ln_2",
               final_norm="transformer.ln_f", positions=0),
    ),
    "opt": (
        Family("OPTForCausalLM", down="fc2", up="fc1", activation="activation_fn", norm="final_layer_norm",
               reads="final_layer_norm", final_norm="model.decoder.final_layer_norm",
               positions=2, choices=(("do_layer_norm_before", True),)),
    ),
    "gpt_neox": (
        _NEOX,
        replace(_NEOX, wiring="sequential", reads="post_attention_layernorm",
                choices=(("use_parallel_residual", False),)),
    ),
    "llama": (_LLAMA,),
    "mistral": (replace(_LLAMA, architecture="MistralForCausalLM"),),
    "qwen2": (replace(_LLAMA, architecture="Qwen2ForCausalLM"),),
    "qwen3": (replace(_LLAMA, architecture="Qwen3ForCausalLM"),),
    "smollm3": (replace(_LLAMA, architecture="SmolLM3ForCausalLM"),),
    "olmo2": (
        replace(_LLAMA, architecture="Olmo2ForCausalLM", norm=None, reads="mlp.up_proj",
                norm_after="post_feedforward_layernorm"),
    ),
    "phi3": (
        replace(_LLAMA, architecture="Phi3ForCausalLM", up="mlp.gate_up_proj", gate=None, fused=True,
                activation="mlp.activation_fn"),
    ),
    "gemma": (replace(_LLAMA, architecture="GemmaForCausalLM"),),
    "gemma2": (_GEMMA2,),
    "gemma3_text": (replace(_GEMMA2, architecture="Gemma3ForCausalLM"),),
    "phi": (
        Family("PhiForCausalLM", down="mlp.fc2", up="mlp.fc1", activation="mlp.activation_fn", norm="input_layernorm",
               reads=None, final_norm="model.final_layernorm", wiring="parallel"),
    ),
    "gptj": (
        Family("GPTJForCausalLM", down="mlp.fc_out", up="mlp.fc_in", activation="mlp.act", norm="ln_1", reads=None,
               final_norm="transformer.ln_f", wiring="parallel", packed=False),
    ),
    "falcon": (
        Family("FalconForCausalLM", down="mlp.dense_4h_to_h", up="mlp.dense_h_to_4h", activation="mlp.act",
               norm="input_layernorm", reads=None, final_norm="transformer.ln_f", wiring="parallel", packed=False,
               choices=(("parallel_attn", True), ("new_decoder_architecture", False))),
    ),
    "bloom": (
        Family("BloomForCausalLM", down="mlp.dense_4h_to_h", up="mlp.dense_h_to_4h", activation="mlp.gelu_impl",
               norm="post_attention_layernorm", reads="post_attention_layernorm", final_norm="transformer.ln_f",
               packed=False, choices=(("apply_residual_connection_post_layernorm", False),)),
    ),
}  # fmt: skip

# Model types that people ask for, and why there is no row for them.
LEFT_OUT = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "deberta-v2", "modernbert"),
                    "an encoder: its prefixes and next tokens are not defined"),
    **dict.fromkeys(("t5", "mt5", "bart", "mbart", "marian", "pegasus", "m2m_100", "whisper"),
                    "an encoder-decoder: its blocks have cross-attention between residual and memories"),
    **dict.fromkeys(("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "deepseek_v2", "deepseek_v3", "gpt_oss", "dbrx",
                     "phimoe", "jamba", "granitemoe", "llama4", "llama4_text", "switch_transformers"),
                    "a mixture of experts: which memories exist depends on the token"),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "rwkv", "recurrent_gemma", "falcon_h1"),
                    "a state-space or recurrent model: it has no feed-forward layer of keys and values"),
}  # fmt: skip


def row(config: dict[str, object], where: str) -> Family:
    """Return the row of a model's config. Raises ``UserError`` where its type, or one of its options, has none."""
    kind = str(config.get("model_type"))
    if kind not in FAMILIES:
        known = f"use a decoder of {', '.join(FAMILIES)}"
        if kind in LEFT_OUT:
            raise UserError(f"{where}: {kind} is {LEFT_OUT[kind]}", known)
        if "text_config" in config:
            hint = f"save the text model in it by itself, with `transformers`, or {known}"
            raise UserError(f"{where}: a multimodal {kind[:60]!r} model", hint)
        hint = f"{known}, or propose a row, in a clone: python -m tools.model_row FOLDER"
        raise UserError(f"{where}: no row says where the memories of {kind[:60]!r} models are", hint)
    rows = FAMILIES[kind]
    for family in rows:
        if all(config.get(name, value) == value for name, value in family.choices):
            return family
    name, value = next((n, v) for n, v in rows[0].choices if config.get(n, v) != v)
    hint = "use another checkpoint"
    raise UserError(f"{where}: {name} is {config[name]!r}; {kind} models are read with {name}: {value!r}", hint)
