"""Folders of models as people have them: each is read rightly, or refused by its name with a way out that works."""

import json
import os
import re
import shutil
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from ff_memories.base.errors import UserError
from ff_memories.inputs import model_folder
from ff_memories.inputs.proved_model import take_in

IDS = torch.arange(3, 20)[None]


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return tiny.save(tmp_path_factory.mktemp("llama") / "model", "llama", tie_word_embeddings=False)


@pytest.fixture
def folder(llama, tmp_path):
    shutil.copytree(llama, tmp_path / "model")
    return tmp_path / "model"


def renamed(folder, name):
    """Give every tensor of a folder another name, or none."""
    path = folder / "model.safetensors"
    found = ((name(own), tensor) for own, tensor in load_file(path).items())
    save_file({own: tensor for own, tensor in found if own}, path, {"format": "pt"})


def more(folder, **tensors):
    path = folder / "model.safetensors"
    save_file(load_file(path) | {name.replace("__", "."): tensor for name, tensor in tensors.items()}, path)


def edited(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def with_large_index(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").touch()
    os.truncate(folder / "model.safetensors.index.json", 1 << 31)


def refused(folder):
    with pytest.raises(UserError) as error:
        model_folder.files_of(folder)
        model_folder.check(folder, "auto", str(folder))
    return str(error.value)


def logits(folder):
    """Return the logits that a folder's model gives, after it was checked and proved."""
    model_folder.check(folder, "auto", str(folder))
    return take_in(folder).model(IDS).logits


WRAPPED = {
    "torch.compile": lambda n: f"_orig_mod.{n}",
    "distributed": lambda n: f"module.{n}",
    "compiled, then distributed": lambda n: f"_orig_mod.module.{n}",
    "compiled layers": lambda n: n.replace("mlp.", "_orig_mod.mlp."),
    "sharded": lambda n: f"_fsdp_wrapped_module.{n.replace('mlp.', '_checkpoint_wrapped_module.mlp.')}",
}


@pytest.mark.parametrize("what", WRAPPED)
def test_names_that_torch_puts_around_a_model_are_no_names_of_its_weights(folder, llama, what):
    renamed(folder, WRAPPED[what])
    assert torch.equal(logits(folder), logits(llama))


def test_another_name_before_all_weights_is_named(folder):
    renamed(folder, lambda name: f"net.lm.{name}")
    assert "but have net.lm." in refused(folder)


FP8 = torch.float8_e4m3fn
ODD = {
    "a classifier": (lambda f: more(f, score__weight=torch.ones(2, 48)), "has score.weight, which no LlamaForCausalLM"),
    "4 bits": (lambda f: more(f, model__layers__0__mlp__up_proj__qweight=torch.ones(1)), "up_proj.qweight, which no"),
    "8 bits": (
        lambda f: save_file(
            {n: t.to(FP8) for n, t in load_file(f / "model.safetensors").items()}, f / "model.safetensors"
        ),
        "lm_head.weight is of type F8_E4M3",
    ),
    "whole numbers": (
        lambda f: more(f, model__norm__weight=torch.ones(48).view(torch.int32)), "model.norm.weight is of type I32",
    ),
    "no output layer": (lambda f: renamed(f, lambda n: n * ("lm_head" not in n)), "the weights lack lm_head.weight"),
    "an adapter": (
        lambda f: (f / "config.json").rename(f / "adapter_config.json"), "an adapter of peft (adapter_config.json)",
    ),
    "a width that is none": (lambda f: edited(f, head_dim="x"), "head_dim is x; expected a whole"),
    "a layer of its own": (
        lambda f: edited(f, per_layer_config={"1": {"rms_norm_eps": 0.5}}), "'rms_norm_eps' is a per-layer attribute",
    ),
    "a billion layers": (lambda f: edited(f, num_hidden_layers=10**9), "num_hidden_layers is 1000000000; expected"),
    "a large width": (
        lambda f: edited(f, hidden_size=100_000), "lm_head.weight is (300, 48), by config.json (300, 100000)",
    ),
    "more groups than heads": (lambda f: edited(f, num_key_value_heads=5000), "heads of attention in 5000 groups"),
    "a hub's kernel": (lambda f: edited(f, attn_implementation="who/what"), "attn_implementation names code"),
    "a kernel further in": (
        lambda f: edited(f, text_config={"_attn_implementation_internal": "who/what"}), "_internal names code",
    ),
    "experts of a hub": (lambda f: edited(f, _experts_implementation="who/what"), "_experts_implementation names code"),
    "an infinite weight": (
        lambda f: more(f, model__norm__weight=torch.full((48,), torch.inf)), "has weights that are infinite or",
    ),
    "a cut file": (lambda f: os.truncate(f / "model.safetensors", 70_000), "cut, damaged, or not safetensors ("),
    "a large index": (lambda f: with_large_index(f), "larger than 4 MiB"),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_what_is_no_language_model_by_itself_is_said_with_a_way_out(folder, what):
    spoil, expected = ODD[what]
    spoil(folder)
    said = refused(folder)
    assert expected in said and "\n  fix: " in said
    if what in ("a large width", "a cut file"):
        with pytest.raises(UserError, match=re.escape(expected)):
            take_in(folder)


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_what_transformers_saved_is_accepted(name, tmp_path):
    model_folder.check(tiny.save(tmp_path / "whole", name), "auto", "here")
    if name in ("gpt2", "llama"):
        model_folder.check(tiny.save(tmp_path / "shards", name, shard="50KB"), "auto", "here")


def test_no_weight_is_rounded_to_the_type_of_another(folder):
    path = folder / "model.safetensors"
    mixed = {n: t + 1e-4 if t.dim() == 1 else t.bfloat16() for n, t in load_file(path).items()}
    save_file(mixed, path, {"format": "pt"})
    state = take_in(folder).state
    assert all(torch.equal(state[name].float(), tensor.float()) for name, tensor in mixed.items())


def test_what_is_no_weight_is_not_rounded_to_the_weights_type(tmp_path):
    path = tiny.save(tmp_path / "model", "gemma") / "model.safetensors"
    save_file({name: tensor.bfloat16() for name, tensor in load_file(path).items()}, path, {"format": "pt"})
    assert take_in(path.parent).model.get_input_embeddings().embed_scale == torch.tensor(tiny.MODEL**0.5)


LABELS: dict[str, Any] = {
    "num_labels": 10**9, "return_dict": False, "output_hidden_states": True, "use_cache": False, "torchscript": True,
    "problem_type": "x", "id2label": {"a": 1}, "to_dict": 1, "attribute_map": {"a": "b"}, "_name_or_path": 5,
    "architectures": ["LlamaForSequenceClassification"], "chunk_size_feed_forward": 3,
}  # fmt: skip


def test_what_a_config_says_of_labels_and_calls_changes_nothing(folder, llama):
    edited(folder, **LABELS)
    assert torch.equal(logits(folder), logits(llama))


def test_a_tokenizers_file_that_came_after_the_config_is_refused(folder):
    wanted = model_folder.digests(folder, model_folder.files_of(folder))
    model_folder.check_digests(folder, wanted)
    (folder / "added_tokens.json").write_text('{"<new>": 40}')
    with pytest.raises(UserError, match=r"added_tokens\.json changes the tokenizer, and"):
        model_folder.check_digests(folder, wanted)


def test_a_config_of_other_types_is_refused_in_a_line(tmp_path):
    folder = tiny.save(tmp_path / "model", "mistral")
    edited(folder, sliding_window="x")
    assert "sliding_window is x; expected a whole number from 1 to" in refused(folder)
    edited(folder, sliding_window=None, attention_dropout="x")
    assert "not the config of a mistral model (Validation error for field 'attention_dropout': TypeError" in refused(
        folder
    )


def test_norms_without_weights_are_read(tmp_path):
    folder = tiny.save(tmp_path / "model", "opt", layer_norm_elementwise_affine=False, word_embed_proj_dim=48)
    proved = take_in(folder)
    model_folder.check(folder, "auto", "here")
    assert torch.equal(tiny.analysed(proved.model, proved.family).vocabulary.scale, torch.ones(48))


def test_a_projection_before_the_output_layer_is_named(tmp_path):
    folder = tiny.save(tmp_path / "model", "opt", word_embed_proj_dim=24)
    said = refused(folder)
    assert "a projection between them a value by itself predicts nothing" in said and "\n  fix: " in said
