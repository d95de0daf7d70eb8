"""A row is proposed for models without one, and what no row can say is refused with its reason."""

import json
from dataclasses import replace

import pytest
import tiny
import transformers

from ff_memories.base.errors import UserError
from ff_memories.inputs import model_folder
from ff_memories.inputs.proved_model import take_in
from ff_memories.model import families
from ff_memories.model.proof import prove
from tools.model_row import as_python, propose, row_of


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_the_finder_finds_the_row_of_every_family(name):
    assert propose(tiny.model(name)) == replace(tiny.family(name), choices=())


def saved(folder, kind, options):
    """Save a small model of a type in a folder as `transformers` does; return the folder."""
    made = transformers.CONFIG_MAPPING[kind](**options)
    model = getattr(transformers, transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind])(made)
    tiny.drawn(model).save_pretrained(folder)
    return folder


def refused(folder):
    """Return why there is no row for a folder's model."""
    with pytest.raises(UserError) as error:
        row_of(folder)
    return str(error.value)


OLD, LLAMA = tiny.OLD | {"vocab_size": 300}, tiny.LLAMA | {"vocab_size": 300}
NEW = {  # types whose row is found: some take our attention, and some do not
    "starcoder2": LLAMA,
    "codegen": OLD | {"rotary_dim": 8},
    "gpt_neo": {"vocab_size": 300, "hidden_size": 45, "num_layers": 3, "num_heads": 5, "window_size": 4,
                "max_position_embeddings": tiny.LONGEST, "attention_types": [[["global", "local"], 1], [["local"], 1]]},
    "gpt_bigcode": OLD,
    "stablelm": LLAMA | {"partial_rotary_factor": 0.5},
    "olmo": LLAMA,
    "granite": LLAMA,
    "xglm": {"vocab_size": 300, "d_model": 48, "num_layers": 3, "attention_heads": 4, "ffn_dim": 160,
             "max_position_embeddings": tiny.LONGEST, "scale_embedding": False},
}  # fmt: skip


@pytest.mark.parametrize("kind", NEW)
def test_the_command_prints_a_row_that_families_takes_as_it_is(kind, tmp_path, monkeypatch):
    monkeypatch.delitem(families.FAMILIES, kind, raising=False)
    said = row_of(saved(tmp_path, kind, NEW[kind]))
    assert f"# {kind}, 3 layers, 22 tokens, float32: at most 1e-05 allowed" in said
    assert "#   y' = m V + b: off by" in said
    rows = eval("{" + said + "\n}", {"Family": families.Family})
    monkeypatch.setitem(families.FAMILIES, kind, rows[kind])
    config = json.loads((tmp_path / "config.json").read_text())
    row = families.row(config, "here")
    assert row.packed == (kind not in ("codegen", "gpt_neo", "stablelm", "xglm"))
    words = tiny.save(tmp_path / "words")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (words / name).rename(tmp_path / name)
    model_folder.check(tmp_path, "<|endoftext|>", "here")
    found = take_in(tmp_path, "<|endoftext|>")
    assert (found.description.layers, found.description.start) == (3, 0)
    model = getattr(transformers, row.architecture).from_pretrained(tmp_path, attn_implementation="eager")
    assert max(prove(model, row).errors.values()) < 1e-5


def test_the_command_says_that_a_row_is_there_already(tmp_path):
    said = row_of(saved(tmp_path, *tiny.CONFIGS["gpt2"]))
    assert "# families.py has this row" in said and as_python("gpt2", tiny.family("gpt2")) in said


def test_attention_that_adds_nothing_leaves_the_wiring_open():
    made = tiny.model("gpt2")
    for layer in made.transformer.h:
        layer.attn.c_proj.weight.zero_()
        layer.attn.c_proj.bias.zero_()
    prove(made, tiny.family("gpt2"))  # given, the row holds
    with pytest.raises(UserError, match="attention adds nothing, so it cannot be told what the memories read"):
        propose(made)


NONE = {  # type -> config and why no row says where its memories are
    "granitemoe": (tiny.LLAMA, "a mixture of experts"),
    "bert": (tiny.NEW, "bert is an encoder"),
    "opt": (tiny.CONFIGS["opt"][1] | {"do_layer_norm_before": False}, "it reads neither what its output is added to"),
    "granite": (tiny.LLAMA | {"logits_scaling": 3.0}, "its logits are not those of its output layer"),
    "cohere": (tiny.LLAMA | {"logit_scale": 0.5}, "its logits are not those of its output layer"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NONE)
def test_a_model_that_no_row_describes_is_refused_with_the_reason(kind, tmp_path):
    options, why = NONE[kind]
    assert why in refused(saved(tmp_path, kind, options))
