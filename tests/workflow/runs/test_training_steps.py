"""The runs over training steps: checkpoints are kept, one file says how their configs differ, and a run repeats."""

import shutil

import pytest
import tiny
import torch
import yaml
from running import ROOT
from safetensors.torch import load_file, save_file

from data import rounding, train_transformer, training_seeds, training_steps
from ff_memories import config
from ff_memories.base.files import sha256
from ff_memories.inputs import model_folder

BASE, DIFFERS = ROOT / "config" / "demo-gpt2.yaml", ROOT / "config" / "training_steps.yaml"
RECIPE = ROOT / "config" / "demo_gpt2_model.yaml"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model trained for four updates by the demo's recipe, shrunk, with a checkpoint after two."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text(tiny.WORDS)
    recipe = yaml.safe_load(RECIPE.read_text()) | {"types": 300, "window": 16, "batch": 2, "updates": 4, "warmup": 1}
    recipe["model"] |= {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_inner": 16, "n_positions": 16}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe | {"checkpoints": [2, 4]}))
    train_transformer.train(folder / "recipe.yaml", folder / "text.txt", folder / "text.txt", folder / "model")
    return folder


def written(trained, tmp_path, differs, updates="2"):
    """The config that is written for a checkpoint, checked."""
    checkpoint = trained / "model-checkpoints" / updates
    training_steps.write_config(BASE, differs, updates, training_steps.in_folder(checkpoint), tmp_path / "out.yaml")
    return config.load(tmp_path / "out.yaml")


def test_training_keeps_every_checkpoint_and_ends_with_the_last(trained):
    found = {path.name: model_folder.digests(path, model_folder.files_of(path))
             for path in (trained / "model-checkpoints").iterdir()}  # fmt: skip
    assert found.keys() == {"2", "4"}
    assert found["4"] == model_folder.digests(trained / "model", model_folder.files_of(trained / "model"))
    assert found["2"]["tokenizer.json"] == found["4"]["tokenizer.json"]
    assert found["2"]["model.safetensors"] != found["4"]["model.safetensors"]


def test_a_checkpoints_config_is_the_whole_runs_but_for_what_differs(trained, tmp_path):
    own = {"corpus": {"train": {"max_sentences": 9}}, "mutations": {"keys_per_layer": 20}}
    found, base = written(trained, tmp_path, own).resolved(), config.load(BASE).resolved()
    checkpoint = trained / "model-checkpoints" / "2"
    assert found["run"] == "demo-gpt2-2"
    assert found["model"]["folder"] == str(checkpoint)
    assert found["model"]["files"] == model_folder.digests(checkpoint, model_folder.files_of(checkpoint))
    assert found["corpus"]["train"] == {"files": [], "max_sentences": 9}
    assert found["mutations"] == base["mutations"] | {"keys_per_layer": 20}
    assert {key for key in base if found[key] != base[key]} == {"run", "model", "corpus", "mutations"}
    assert written(trained, tmp_path, config.read_yaml(DIFFERS), "4").run == "demo-gpt2-4"


def test_a_seeds_run_is_the_demos_with_another_model_and_its_training_is_shorter(tmp_path):
    demo, study = ROOT / training_seeds.BASE, config.read_yaml(ROOT / training_seeds.STUDY)
    for name in ("model.pt", "dict.txt"):
        (tmp_path / name).write_text(name)
    out = tmp_path / "out.yaml"
    training_steps.write_config(demo, study["differs"], "seed-2", training_seeds.trained(tmp_path), out)
    found, base = config.load(out).resolved(), config.load(demo).resolved()
    assert found["run"] == "demo-seed-2" and found["model"]["sha256"] == sha256(tmp_path / "model.pt")
    assert {key for key in base if found[key] != base[key]} == {"run", "model", *study["differs"]}
    own, whole = training_seeds.recipe(2, 1250), config.read_yaml(ROOT / training_seeds.RECIPE)
    changed = {("seed", 2), ("total-num-update", 1250), ("max-update", 1250)}
    assert own["options"].items() - whole["options"].items() == changed


def test_rounding_takes_blocks_of_a_models_inputs_and_leaves_the_rest(trained, tmp_path):
    folder = shutil.copytree(trained / "model", tmp_path / "model")
    names = {"transformer.h.0.mlp.c_fc.weight": (64, 96), "transformer.wte.weight": (9, 64),
             "transformer.wpe.weight": (8, 64), "transformer.h.0.mlp.c_proj.weight": (40, 64)}  # fmt: skip
    given = {name: torch.randn(shape, generator=torch.Generator().manual_seed(1)) for name, shape in names.items()}
    save_file(given, folder / "model.safetensors")
    rounding.rounded(folder, "Q4_1", tmp_path / "q4_1")
    found = load_file(tmp_path / "q4_1" / "model.safetensors")
    inner, words, *rest = names
    assert [block.unique().numel() <= 16 for block in (found[inner][:32, 5], found[words][3, 32:])] == [True] * 2
    assert all(torch.allclose(found[name], given[name], atol=0.3) for name in names)
    assert all(torch.equal(found[name], given[name]) for name in rest)
