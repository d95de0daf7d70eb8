"""Folders with a model of `transformers` that lie about their sizes, are damaged, or hold what is no file."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial

import pytest
import tiny
import torch
import yaml
from laid_out import lay_out
from pipeline import config, run_steps
from refusing import model_step as model_of
from refusing import run_corpus, says
from running import BIN, ROOT
from safetensors.torch import load_file, save_file
from transformers_run import prepare, settings_of

from ff_memories import api
from ff_memories.base.errors import UserError
from ff_memories.inputs.models import model_folder

pytestmark = pytest.mark.more
TEXTS = ["--train", "train.txt", "--validation", "valid.txt"]
HUGE = 8_000_000
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


def header(folder, change):
    """Change the header of a folder's weights and nothing else."""
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    plain = json.loads(raw[8 : 8 + length])
    change(plain)
    new = json.dumps(plain).encode()
    path.write_bytes(len(new).to_bytes(8, "little") + new + raw[8 + length :])


DOWN = "model.layers.1.mlp.down_proj.weight"
CONFIGS: dict[str, tuple[dict, str]] = {
    "a billion layers": ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000; expected a whole number from"),
    "no layers": ({"num_hidden_layers": 0}, "num_hidden_layers is 0; expected"),
    "a list of widths": ({"hidden_size": [48]}, "hidden_size is [48]; expected a whole number"),
    "fewer layers": ({"num_hidden_layers": 2}, "has model.layers.2.input_layernorm.weight, which no"),
    "more layers": ({"num_hidden_layers": 200}, "the weights lack model.layers.10.input_layernorm.weight"),
    "a width of millions": ({"hidden_size": HUGE}, "hidden_size is 8000000; expected a whole number from 1 to 131,072"),
    "a large width": ({"hidden_size": 100_000}, "weight is (300, 48), by config.json (300, 100000)"),
    "no word of the width": ({"hidden_size": None}, "(Validation error for field 'hidden_size'"),
    "many memories": ({"intermediate_size": 10**6}, "mlp.down_proj.weight is (48, 160), by config.json (48, 1000000)"),
    "many types": ({"vocab_size": 10**7}, "weight is (300, 48), by config.json (10000000, 48)"),
    "wide heads": ({"head_dim": 60_000}, "self_attn.k_proj.weight is (24, 48), by config.json (120000, 48)"),
    "many heads": ({"num_attention_heads": 5000}, "not the config of a llama model (Class validation error"),
    "more groups than heads": ({"num_key_value_heads": 5000}, "config.json says 4 heads of attention in 5000 groups"),
    "an epsilon that is none": ({"rms_norm_eps": float("nan")}, "rms_norm_eps: nan is no finite number"),
    "a negative epsilon": ({"rms_norm_eps": -1e-5}, "rms_norm_eps is -1e-05; expected a number from 0 to 1"),
    "an endless epsilon": ({"rms_norm_eps": float("inf")}, "rms_norm_eps: inf is no finite number"),
    "no angle": ({"rope_parameters": {"rope_theta": 0}}, "rope_theta is 0; expected a number above 0"),
    "endlessly many lists": ({"own": 0}, "not readable as JSON ("),
    "an endless list": ({"own": [[1.0, float("-inf")]]}, "own.1.2: -inf is no finite number"),
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
HEADERS = {
    "a name that is no tensor": (lambda h: h.update(own=3), DAMAGED),
    "an unknown type": (lambda h: h[DOWN].update(dtype="F1"), DAMAGED),
    "a negative size": (lambda h: h[DOWN].update(shape=[-48, -160]), DAMAGED),
    "more numbers than bytes": (lambda h: h[DOWN].update(shape=[48, 10**12]), DAMAGED),
    "a tensor twice": (lambda h: h.update({DOWN: h[DOWN.replace(".1.", ".0.")]}), DAMAGED),
}  # fmt: skip


def cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    return DAMAGED


def longer(folder):
    with (folder / "model.safetensors").open("ab") as file:
        file.write(bytes(8))
    return DAMAGED


def empty(folder):
    (folder / "model.safetensors").write_bytes(b"")
    return DAMAGED


def a_header_of_exabytes(folder):
    (folder / "model.safetensors").write_bytes(b"\xff" * 100)
    return DAMAGED


def a_large_header(folder):
    with (folder / "model.safetensors").open("wb") as file:
        file.write((1 << 30).to_bytes(8, "little"))
        file.truncate(1 << 31)
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


FILES = [cut, longer, empty, a_header_of_exabytes, a_large_header, a_deep_header, a_large_index]
CASES: dict[str, tuple[Callable, str | None]] = {
    **{name: (partial(edit, **change), said) for name, (change, said) in CONFIGS.items()},
    **{name: (partial(rewrite, change=change), said) for name, (change, said) in WEIGHTS.items()},
    **{name: (partial(header, change=change), said) for name, (change, said) in HEADERS.items()},
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
def test_init_refuses_a_folder_that_is_not_what_it_says(project, capsys, what):
    spoil, said = CASES[what]
    said = spoil(project / "model") or said
    found = says(capsys, "init", "my.yaml", "--model", "./model", *TEXTS)
    assert said in found and "model" in found and "\n  fix: " in found
    assert not (project / "my.yaml").exists()


@pytest.mark.parametrize("what", ["a large width", "more layers", "every weight is turned", "cut", "a deep header"])
def test_so_does_the_model_step(project, capsys, what):
    spoil, said = CASES[what]
    said = spoil(project / "model") or said
    assert said in says(capsys, *model_step(project / "model", project / "out"))
    assert not (project / "out").exists()


@pytest.mark.parametrize("name", ["gpt2", "opt"])
def test_learned_positions_are_as_many_as_the_config_says(name, tmp_path):
    folder = tiny.save(tmp_path / "model", name)
    edit(folder, **{"n_positions" if name == "gpt2" else "max_position_embeddings": 16_000_000})
    with pytest.raises(UserError, match=r"weight is \(6[02], 48\), by config.json \(1600000[02], 48\)"):
        model_folder.check(folder, "auto", "here")


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_what_transformers_saved_is_accepted(name, tmp_path):
    folder = tiny.save(tmp_path / "whole", name)
    model_folder.check(folder, "auto", "here")
    if name in ("gpt2", "llama"):
        model_folder.check(tiny.save(tmp_path / "shards", name, shard="50KB"), "auto", "here")


LIES = {"a billion layers": {"num_hidden_layers": 10**9}, "a large width": {"hidden_size": 130_000}}


@pytest.fixture(scope="module")
def honest(llama, tmp_path_factory):
    """What `init` takes on the honest folder."""
    folder = tmp_path_factory.mktemp("honest")
    shutil.copytree(llama, folder / "model")
    for name in ("train.txt", "valid.txt"):
        (folder / name).write_text(tiny.WORDS, encoding="utf-8")
    return _measured(folder, "honest.yaml")


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_sizes_takes_neither_time_nor_memory(project, honest, lie):
    """Beyond those of the same command on the honest folder; its processor time grows by half beside other work."""
    edit(project / "model", **LIES[lie])
    found = _measured(project, "my.yaml")
    assert honest[0] == 0 and found[0] == 2
    assert found[1] < 1.5 * honest[1] + 1 and found[2] < honest[2] + 50


@pytest.mark.parametrize("command", ["plan", "step"])
def test_so_with_a_run_that_is_set_up(project, command):
    settings = settings_of()
    settings["corpus"]["validation"]["files"] = ["valid.txt"]
    (project / "my.yaml").write_text(yaml.safe_dump(settings))
    edit(project / "model", hidden_size=HUGE)
    step = ["step", *model_step(project / "model", project / "out")]
    code, _, megabytes, said = _child(project, *(["plan", "--configfile", "my.yaml"] if command == "plan" else step))
    assert code == 2 and "expected a whole number from 1 to" in said
    assert megabytes < library() + 480, "what the libraries take"


def test_a_model_that_is_not_fetched_is_not_measured_where_no_memory_holds_it(project):
    revision, types = 40 * "0", "tokenizer.json"
    hub = project / "data" / "hub" / "a--b" / revision
    hub.mkdir(parents=True)
    for name in ("config.json", types):
        shutil.copyfile(project / "model" / name, hub / name)
    edit(hub, hidden_size=130_000, intermediate_size=32_000)
    settings = settings_of()
    settings["corpus"]["validation"]["files"] = ["valid.txt"]
    pinned = dict.fromkeys(("config.json", types, "model.safetensors"), 64 * "0")
    settings["model"] = {"hub": "a/b", "revision": revision, "files": pinned}
    (project / "my.yaml").write_text(yaml.safe_dump(settings))
    code, _, megabytes, said = _child(project, "plan", "--configfile", "my.yaml")
    assert code == 2 and "this run does not fit: a layer and the output layer need " in said
    assert megabytes < library() + 480


# ------------------------------------------------------------------------------------------------- what is no file


def pipe(path):
    os.mkfifo(path)


def directory(path):
    path.mkdir()


KINDS = (pipe, directory)
MODEL = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")


def put(path, kind):
    """Put what is no file in a file's place."""
    path.unlink(missing_ok=True)
    kind(path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", MODEL)
def test_only_regular_files_of_a_model_are_opened(project, capsys, where, kind):
    put(project / "model" / where, kind)
    said = f"model/{where}: expected a file, found {'a directory' if kind is directory else 'a pipe or a device'}\n"
    assert said in says(capsys, "init", "my.yaml", "--model", "model", *TEXTS)
    (project / "my.yaml").write_text(yaml.safe_dump(settings_of()))
    for name in ("train.txt", "validation.txt"):
        (project / name).write_text(tiny.WORDS)
    assert said in says(capsys, "plan", "--configfile", "my.yaml")
    assert said in says(capsys, "transformer-model", "--config", "my.yaml", "--files", "model/config.json", *OUT)
    with pytest.raises(UserError, match="expected a file"):
        api.load_model("model")


OUT = [part for name in ("weights", "description", "info", "types") for part in (f"--{name}", f"out/{name}")]


INPUTS = {
    "model.pt": "--checkpoint",
    "dict.txt": "--dictionary",
    "train.txt": "--train",
    "validation.txt": "--validation",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*INPUTS, "my.yaml"])
def test_only_regular_files_are_opened_as_checkpoint_dictionary_text_or_config(
    folder, capsys, monkeypatch, name, kind
):  # fmt: skip
    monkeypatch.chdir(folder)
    put(folder / name, kind)
    said = f"{name}: expected a file, found"
    given = [part for file, option in INPUTS.items() for part in (option, file)]
    assert said in says(capsys, "init", "my.yaml", *given, *(["--force"] if name == "my.yaml" else []))
    if name != "my.yaml":
        (folder / "my.yaml").write_text(yaml.safe_dump(config()))
    assert said in says(capsys, "plan", "--configfile", "my.yaml")
    if name in ("train.txt", "validation.txt"):
        assert said in says(capsys, *run_corpus(folder))
    elif name != "my.yaml":
        assert said in says(capsys, *model_of(folder))
        with pytest.raises(UserError, match="expected a file, found"):
            api.load_model("model.pt", "dict.txt")
    else:
        for words in ("trace text", "show --layer 1 --key 0", "fetch"):
            assert said in says(capsys, *words.split(), "--configfile", "my.yaml")


TABLES = "results/small/tables"
# What a run made or people sent, and a command that reads it.
READ = {
    "results/small/model/info.json": "trace text --configfile my.yaml",
    "results/small/model/model.safetensors": "trace text --configfile my.yaml",
    "results/small/tables/triggers.parquet": "show --layer 1 --key 0 --top 3 --configfile my.yaml",
    "results/small/corpus/corpus.safetensors": "export neuronpedia --configfile my.yaml --out np",
    "text.txt": "trace --file text.txt --configfile my.yaml",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run of a gated model."""
    folder = tmp_path_factory.mktemp("run")
    settings = prepare(folder, "llama", train=60, validation=30)
    lay_out(folder, run_steps(folder, settings), "small")
    return folder


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", [pipe, directory])
@pytest.mark.parametrize("name", READ)
def test_only_regular_files_are_opened_of_what_a_run_made_or_people_sent(
    run, tmp_path, monkeypatch, capsys, name, kind
):
    here = shutil.copytree(run, tmp_path / "here")
    monkeypatch.chdir(here)
    (here / name).parent.mkdir(parents=True, exist_ok=True)
    put(here / name, kind)
    assert name.rpartition("/")[2] in says(capsys, *READ[name].split())


def _measured(folder, config):
    return _child(folder, "init", config, "--model", "./model", *TEXTS)


@cache
def library():
    """Return the megabytes that torch takes when it is imported: with CUDA's libraries 280 more than without."""
    code = "import resource, torch; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout) / 1024


def _child(folder, *arguments):
    """Run a command alone; return its status, processor seconds, largest megabytes and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", _ALONE, BIN / "ff-memories", *map(str, arguments)], cwd=folder, capture_output=True,
        text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, timeout=120,
    )  # fmt: skip
    *_, seconds, peak = done.stdout.split()
    return done.returncode, float(seconds), int(peak) / 1024, done.stderr


_ALONE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(done.returncode)
"""
