"""Models of `transformers`: what is read from them is what they compute, and a row that says otherwise is refused."""

from dataclasses import asdict, replace

import pytest
import tiny
import torch
from tiny import CONFIGS

from ff_memories.base.errors import UserError
from ff_memories.model import packed
from ff_memories.model.families import FAMILIES
from ff_memories.model.products import attention
from ff_memories.model.proof import TOLERANCES, prove

EXACT = {torch.float32: 1e-5, torch.float64: 1e-6}  # several families compute parts of a layer in float32


# ------------------------------------------------------------------------------------------------ proof of the rows


def test_every_row_has_a_small_model():
    assert {tiny.family(name) for name in CONFIGS} == {row for rows in FAMILIES.values() for row in rows}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_row_is_proved_in_every_precision(name, dtype):
    row = tiny.family(name)
    proof = prove(tiny.model(name, dtype), row)
    checked = {"values", "coefficients", "stream", "readout", "output" if row.reads else "residual"}
    checked |= ({"norm behind"} if row.norm_after else set()) | {"packing" if row.packed else "causal"}
    assert (proof.layers, proof.tokens, set(proof.errors)) == (tiny.LAYERS, 22, checked)
    assert max(proof.errors.values()) <= proof.tolerance or dtype == torch.bfloat16
    assert list(asdict(proof)["errors"].values()) == list(proof.errors.values())


def test_a_proof_leaves_the_model_as_it_was():
    made = tiny.model("llama")
    made.set_attn_implementation(packed.NAME)
    prove(made, tiny.family("llama"))
    assert made.config._attn_implementation == packed.NAME
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in made.modules())
    with pytest.raises(UserError):
        prove(made, replace(tiny.family("llama"), norm=None))
    assert made.config._attn_implementation == packed.NAME


WRONG: dict[str, tuple[str, dict, str]] = {  # model -> what its row is made to say, and what the refusal names
    "parallel, where it is sequential": ("gpt2", {"wiring": "parallel"}, "layer 1, mlp.c_fc: m = f(K h)"),
    "sequential, where it is parallel": ("gpt_neox", {"wiring": "sequential"}, "layer 1, mlp.dense_h_to_4h: m = f("),
    "the residual of another place": ("gpt2", {"reads": "ln_1"}, "layer 1, ln_1 + mlp.c_proj: o = r + y"),
    "parallel attention as residual": ("phi", {"reads": "input_layernorm"}, "input_layernorm + mlp.fc2: o = r + y"),
    "no norm": ("llama", {"norm": None}, "layer 1, mlp.gate_proj: m = f(K h)"),
    "another norm": ("gpt2", {"norm": "ln_1"}, "layer 1, mlp.c_fc: m = f(K h)"),
    "no norm behind": ("gemma2", {"norm_after": None}, "+ mlp.down_proj: o = r + y"),
    "another norm behind": ("gemma3", {"norm_after": "input_layernorm"}, "input_layernorm: the norm behind reads y'"),
    "a norm behind where there is none": ("llama", {"norm_after": "input_layernorm"}, "the norm behind reads y'"),
    "the first matrix as the last": ("gpt2", {"down": "mlp.c_fc"}, "layer 1, mlp.c_fc: o = r + y does not hold: 160"),
    "attention's matrix": ("llama", {"down": "self_attn.o_proj"}, "+ self_attn.o_proj: o = r + y"),
    "no matrix": ("opt", {"down": "activation_fn"}, "layer 1, activation_fn: it is no matrix"),
    "no such module": ("opt", {"down": "fc3"}, "layer 1: it has no module fc3"),
    "gate and up exchanged": ("qwen3", {"up": "mlp.gate_proj", "gate": "mlp.up_proj"}, "m = f(K h)"),
    "no gate": ("mistral", {"gate": None}, "layer 1, mlp.up_proj: m = f(K h)"),
    "gate and up apart": ("phi3", {"fused": False}, "layer 1, mlp.gate_up_proj: m = f(K h)"),
    "another activation": ("gptj", {"activation": "attn.attn_dropout"}, "layer 1, mlp.fc_in: m = f(K h)"),
    "another readout": ("falcon", {"final_norm": "transformer.h.0.input_layernorm"}, "logits = cap"),
    "no such readout": ("bloom", {"final_norm": "norm"}, "norm: the model has no such module"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_row_is_refused(what):
    name, said, refusal = WRONG[what]
    with pytest.raises(UserError) as refused:
        prove(tiny.model(name), replace(tiny.family(name), **said))
    assert refusal in str(refused.value) and tiny.family(name).architecture in str(refused.value)
    assert "fix: the row of families.py is not this model's" in str(refused.value)


@pytest.mark.parametrize("name", ["gpt2", "phi", "gemma2", "bloom"])
def test_a_single_layer_that_differs_is_found(name):
    made = tiny.model(name)
    down = made.get_submodule(f"{tiny.layers_at(made)}.2.{tiny.family(name).down}")
    plain = down.forward
    down.forward = lambda x: plain(x) * 1.001
    with pytest.raises(UserError, match=r"layer 3, .*y' = m V \+ b.* does not hold: off by 0.001, 1e-05 is allowed"):
        prove(made, tiny.family(name))


def test_other_attention_than_the_models_is_found(monkeypatch):
    monkeypatch.setattr("ff_memories.model.packed.attention", lambda q, k, v, scale, cap: attention(q, k, v, scale))
    with pytest.raises(UserError, match="layer 1: a layer gives the same for packed sentences does not hold"):
        made = tiny.model("gemma2", change={"attn_logit_softcapping": 0.05})
        prove(made, tiny.family("gemma2"))


def test_a_layer_that_scales_what_it_hands_on_is_refused():
    made = tiny.model("gpt2")
    made.transformer.h[1].register_forward_pre_hook(lambda _, args: (args[0] * 2, *args[1:]))
    with pytest.raises(UserError, match="layer 2: a layer reads the output of the layer below does not hold"):
        prove(made, tiny.family("gpt2"))


def test_numbers_that_are_not_finite_prove_nothing():
    made = tiny.model("gpt2")
    made.transformer.h[2].mlp.c_fc.weight[0, 0] = torch.inf
    with pytest.raises(UserError, match="layer 3"):
        prove(made, tiny.family("gpt2"))


@pytest.mark.parametrize("name, equation", [("gpt_neox", r"layer 2: r = x \+ attention"),
                                            ("gpt2", r"layer 2, .*: o = r \+ y")])  # fmt: skip
def test_a_layer_that_adds_something_besides_is_refused(name, equation):
    made = tiny.model(name)
    layer = made.get_submodule(f"{tiny.layers_at(made)}.1")
    plain = layer.forward
    layer.forward = lambda *args, **kwargs: plain(*args, **kwargs) + 0.01
    with pytest.raises(UserError, match=equation):
        prove(made, tiny.family(name))
