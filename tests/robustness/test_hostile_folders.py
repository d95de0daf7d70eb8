"""Folders with a model of `transformers` that lie about their sizes, are damaged, or hold what is no file."""

import json
import shutil
from collections.abc import Callable
from functools import partial

import pytest
import tiny
import torch
from refusing import says
from safetensors.torch import load_file, save_file

from ff_memories.inputs import model_folder

pytestmark = pytest.mark.more
TEXTS = ["--train", "train.txt", "--validation", "valid.txt"]
DEEP = 100_000 * "[" + 100_000 * "]"


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return tiny.save(tmp_path_factory.mktemp("llama") / "model", "llama")


@pytest.fixture
def project(llama, tmp_path, monkeypatch):
    """A gated model and two texts; the working directory."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(llama, "model")
    for name in ("train.txt", "valid.txt"):
        (tmp_path / name).write_text(tiny.WORDS, encoding="utf-8")
    return tmp_path


def edit(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes).replace('"own": 0', '"own": ' + DEEP))


def rewrite(folder, change):
    """Change the tensors of a folder."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / "model.safetensors")


DOWN = "model.layers.1.mlp.down_proj.weight"
CONFIGS: dict[str, tuple[dict, str]] = {
    "a billion layers": ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000; expected a whole number from"),
    "more layers": ({"num_hidden_layers": 200}, "the weights lack model.layers.10.input_layernorm.weight"),
    "a large width": ({"hidden_size": 100_000}, "weight is (300, 48), by config.json (300, 100000)"),
    "more groups than heads": ({"num_key_value_heads": 5000}, "config.json says 4 heads of attention in 5000 groups"),
    "an epsilon that is none": ({"rms_norm_eps": float("nan")}, "rms_norm_eps: nan is no finite number"),
    "endlessly many lists": ({"own": 0}, "not readable as JSON ("),
    "a hub's kernel": ({"attn_implementation": "who/what"}, "attn_implementation names code"),
    "a kernel further in": ({"text_config": {"_attn_implementation_internal": "who/what"}}, "names code"),
    "experts of a hub": ({"_experts_implementation": "who/what"}, "_experts_implementation names code"),
}  # fmt: skip
WEIGHTS = {
    "a weight is missing": (lambda w: w.pop(DOWN), f"the weights lack {DOWN}"),
    "every weight is turned": (
        lambda w: w.update({n: t.t() for n, t in w.items() if "down" in n}),
        "mlp.down_proj.weight is (160, 48), by config.json (48, 160)",
    ),
    "an infinite weight": (lambda w: w[DOWN].view(-1)[-1].fill_(torch.inf), f"{DOWN} has weights that are infinite or"),
}  # fmt: skip
DAMAGED = "model.safetensors: cut, damaged, or not safetensors ("


def cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    return DAMAGED


def a_deep_header(folder):
    deep = b"[" * 2_000_000
    (folder / "model.safetensors").write_bytes(len(deep).to_bytes(8, "little") + deep)
    return DAMAGED


def a_large_index(folder):
    (folder / "model.safetensors").unlink()
    with (folder / "model.safetensors.index.json").open("wb") as file:
        file.truncate(1 << 31)
    return "larger than 4 MiB"


FILES = [cut, a_deep_header, a_large_index]
CASES: dict[str, tuple[Callable, str | None]] = {
    **{name: (partial(edit, **change), said) for name, (change, said) in CONFIGS.items()},
    **{name: (partial(rewrite, change=change), said) for name, (change, said) in WEIGHTS.items()},
    **{spoil.__name__.replace("_", " "): (spoil, None) for spoil in FILES},
}


def model_step(folder, out):
    """Return the model step's command on a folder, whatever is in it."""
    config = json.dumps({"model": {"folder": str(folder)}, "triggers": {"signs": "auto"}})
    names = [path for path in sorted(folder.iterdir()) if path.is_file()]
    given = [("weights", "model.safetensors"), *((name, f"{name}.json") for name in ("description", "info", "types"))]
    outs = (part for name, file in given for part in (f"--{name}", out / file))
    return ["transformer-model", "--config", config, "--files", *names, *outs]


@pytest.mark.parametrize("what", CASES)
def test_init_and_the_model_step_refuse_a_folder_that_is_not_what_it_says(project, capsys, what):
    spoil, said = CASES[what]
    said = spoil(project / "model") or said
    found = says(capsys, "init", "my.yaml", "--model", "./model", *TEXTS)
    assert said in found and "model" in found and "\n  fix: " in found
    assert not (project / "my.yaml").exists()
    if what in ("a large width", "cut"):
        assert said in says(capsys, *model_step(project / "model", project / "out"))
        assert not (project / "out").exists()


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_what_transformers_saved_is_accepted(name, tmp_path):
    folder = tiny.save(tmp_path / "whole", name)
    model_folder.check(folder, "auto", "here")
    if name in ("gpt2", "llama"):
        model_folder.check(tiny.save(tmp_path / "shards", name, shard="50KB"), "auto", "here")
