"""Models of `transformers` from a hub and from folders: what `init` writes, what is fetched, and what is refused.

The hub is a web server on this machine, and `huggingface_hub` asks it as it asks the real one.
"""

import json
import shutil
from pathlib import Path

import gguf_files
import huggingface_hub.constants as hub_constants
import pytest
import tiny
import torch
import yaml
from hub_server import serving, sha256
from pipeline import step as run
from refusing import says

from ff_memories.config import load
from ff_memories.corpus.tokenizer import Tokenizer
from ff_memories.inputs import model_folder
from ff_memories.inputs.of_run import Inputs
from ff_memories.workflow.run import Run

TEXTS = ["--train", "train.txt", "--validation", "valid.txt"]
NAME = "tiny/gpt2"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model that `transformers` saved."""
    return tiny.save(tmp_path_factory.mktemp("saved") / "gpt2")


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the saved model, to change."""
    return shutil.copytree(saved, tmp_path / "model")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project with two texts; the working directory."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    for name in ("train.txt", "valid.txt"):
        Path(name).write_text(tiny.WORDS, encoding="utf-8")
    return tmp_path / "project"


@pytest.fixture
def web(project, monkeypatch):
    """A hub, with `huggingface_hub` set as HF_ENDPOINT and HF_HOME would set it, without a login."""
    with serving() as (address, served):
        monkeypatch.setattr(hub_constants, "ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(hub_constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(project.parent / "cache"))
        monkeypatch.setattr(hub_constants, "HF_TOKEN_PATH", str(project.parent / "no-token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield served


@pytest.fixture
def offline(monkeypatch):
    """Call it to go offline, as HF_HUB_OFFLINE=1 would."""
    return lambda: monkeypatch.setattr(hub_constants, "HF_HUB_OFFLINE", True)


def init(model, *more, name="my.yaml"):
    run("init", name, "--model", model, *TEXTS, *more)
    return load(name)


def refused(capsys, model, *more):
    """Return what `init` says of a model that it refuses; it must leave nothing behind."""
    before = sorted(Path().rglob("*"))
    said = says(capsys, "init", "my.yaml", "--model", model, *TEXTS, *more)
    assert sorted(Path().rglob("*")) == before
    assert "\n  fix: " in said
    return said


def edit(path, **changes):
    """Change keys of a JSON file; ``None`` removes one."""
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def test_init_pins_the_commit_every_files_digest_and_the_licence(web, saved, capsys):
    commit = web.push(NAME, saved, license="other", license_name="tiny-1")
    made, other = init(NAME).model, init(NAME, "--set", "composition.memories=all", name="other.yaml")
    assert (load("my.yaml").composition.memories, other.composition.memories) == ("share:0.9", "all")
    said = capsys.readouterr().out
    assert f"{NAME}: commit {commit}, licence: tiny-1" in said and "ff-memories run my.yaml" in said
    assert (made.hub, made.revision, made.licence, made.folder) == (NAME, commit, "tiny-1", None)
    names = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    assert made.files == {name: sha256((saved / name).read_bytes()) for name in names}
    assert "model.safetensors" not in web.downloads(), "the hub tells its digest"


def test_a_branch_is_pinned_to_its_commit(web, saved, folder):
    first = web.push(NAME, saved, "step1")
    (folder / "config.json").write_text((folder / "config.json").read_text() + "\n")
    second = web.push(NAME, folder)
    assert first != second
    for revision, commit in (("step1", first), (first, first), ("main", second)):
        assert init(NAME, "--revision", revision, "--force").model.revision == commit


def test_a_start_token_of_ones_own_is_looked_up_at_once(web, saved, capsys):
    web.push(NAME, saved)
    assert init(NAME, "--set", "model.start=.").model.start == "."
    said = refused(capsys, NAME, "--force", "--set", "model.start=<bos>")
    assert f"{NAME}: the tokenizer has no token '<bos>'" in said and "cache" not in said


@pytest.mark.parametrize("parts", [True, False])
def test_of_a_repository_only_the_files_of_one_model_are_taken(web, folder, parts):
    """Many hold the weights twice, in other formats, and code."""
    if parts:
        shutil.rmtree(folder)
        tiny.save(folder, shard="150KB")
        shards = [path.name for path in folder.glob("model-*.safetensors")]
        assert len(shards) > 1
    for other in ("pytorch_model.bin", "consolidated.safetensors", "model.onnx", "modeling_own.py", "README.md"):
        (folder / other).write_bytes(b"other")
    (folder / "special_tokens_map.json").write_text("{}")
    web.push(NAME, folder)
    weights = ["model.safetensors.index.json", *shards] if parts else ["model.safetensors"]
    others = ["config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"]
    assert sorted(init(NAME).model.files) == sorted([*others, *weights])
    run("fetch", "--configfile", "my.yaml")
    assert sorted(init(folder, "--force").model.files) == sorted([*others, *weights])
    run("fetch", "--configfile", "my.yaml")  # nothing


def test_fetching_puts_every_file_in_its_place_and_asks_nothing_twice(web, saved, capsys, offline):
    commit = web.push(NAME, saved, license="mit")
    init(NAME)
    made = Run(yaml.safe_load(Path("my.yaml").read_text()), "my.yaml")
    run("fetch", "--configfile", "my.yaml")
    folder = Path(f"data/hub/tiny--gpt2/{commit}")
    assert made.inputs.pinned_on_hub.files.keys() == {p.name for p in folder.iterdir()}, "nothing else lies there"
    files = made.resolved["model"]["files"]
    assert model_folder.digests(folder, files) == files
    asked = len(web.asked)
    run("fetch", "--configfile", "my.yaml")
    assert len(web.asked) == asked
    shutil.rmtree("data")
    offline()
    run("fetch", "--configfile", "my.yaml")  # from the hub's cache
    assert len(web.asked) == asked and made.inputs.pinned_on_hub.files.keys() == {p.name for p in folder.iterdir()}
    capsys.readouterr()
    run("fetch", "--list", "--configfile", "my.yaml")
    assert f"{NAME}\tmodel\t{folder}\tpresent\tmit\tcommit {commit}" in capsys.readouterr().out
    shutil.rmtree("data")
    assert init(NAME, "--force").model.revision == commit, "init knows the model offline too"


def test_offline_it_says_which_files_to_put_where(web, saved, capsys, offline):
    web.push(NAME, saved)
    pinned = Inputs(init(NAME)).pinned_on_hub
    assert pinned is not None
    offline()
    said = says(capsys, "fetch", "--configfile", "my.yaml")
    assert f"{NAME}: missing config.json, model.safetensors" in said
    assert f"/{NAME}/resolve/{pinned.revision} into {pinned.folder}" in said
    shutil.copytree(saved, pinned.folder)
    run("fetch", "--configfile", "my.yaml", "--offline")


def test_another_file_than_the_pinned_one_is_refused(web, saved, capsys):
    commit = web.push(NAME, saved)
    init(NAME)
    web.models[NAME][commit][1]["model.safetensors"] = b"others"
    said = says(capsys, "fetch", "--configfile", "my.yaml")
    assert f"{NAME}: model.safetensors of commit {commit}: its SHA-256 is {sha256(b'others')}" in said
    assert [p.name for p in Path("data").rglob("model*")] == []


def test_a_plan_needs_no_weights(web, tmp_path, capsys, offline):
    """A gated layer's memories count for both signs."""
    web.push(NAME, tiny.save(tmp_path / "llama", "llama"))
    init(NAME)
    run("plan", "--configfile", "my.yaml")
    words = len(tiny.WORDS.split())
    tokens = len(Tokenizer.read(tmp_path / "llama" / "tokenizer.json").encode(tiny.WORDS.split()))
    assert tokens > words
    assert f"my: 3 layers of 320 keys, 300 types, {tokens} + {tokens} tokens" in capsys.readouterr().out
    assert "model.safetensors" not in web.downloads() and not Path("data").exists()
    offline()
    shutil.rmtree(hub_constants.HF_HUB_CACHE)
    assert f"{NAME} at " in says(capsys, "plan", "--configfile", "my.yaml")


def test_what_the_hub_does_not_have_or_does_not_give(web, saved, capsys, monkeypatch):
    web.push(NAME, saved)
    assert "tiny/none: no such model on http" in refused(capsys, "tiny/none")
    assert "with a branch, tag or commit 'v9'" in refused(capsys, NAME, "--revision", "v9")
    web.gated.add(NAME)
    said = refused(capsys, NAME)
    assert "the model is gated" in said and "hf auth login" in said
    web.broken = 503
    assert "503" in refused(capsys, NAME)
    monkeypatch.setattr(hub_constants, "ENDPOINT", "http://127.0.0.1:9")
    assert f"{NAME} at main: not to be had from http://127.0.0.1:9 (" in refused(capsys, NAME)


def missing_shard(folder):
    shutil.rmtree(folder)
    tiny.save(folder, shard="150KB")
    sorted(folder.glob("model-*.safetensors"))[-1].unlink()


def no_start(folder):
    text = (folder / "tokenizer.json").read_text().replace("<|endoftext|>", "<end>")
    (folder / "tokenizer.json").write_text(text)
    edit(folder / "tokenizer_config.json", bos_token=None)
    edit(folder / "config.json", bos_token_id=None)


def configured(**changes):
    return lambda folder: edit(folder / "config.json", **changes)


REFUSED = {
    "config.json: auto_map names code": configured(auto_map={"AutoModelForCausalLM": "modeling_own.Own"}),
    "the tokenizer names no token that a text begins with": no_start,
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "model.safetensors.index.json names model-0000": missing_shard,
    "no tokenizer.json": lambda folder: (folder / "tokenizer.json").unlink(),
    "tokenizer.json: the tokenizer has 300 types, the model 290": configured(vocab_size=290),
}


@pytest.mark.parametrize("said", REFUSED)
def test_init_refuses_what_a_run_would_refuse(web, folder, capsys, said):
    REFUSED[said](folder)
    found = refused(capsys, folder)
    assert said in found and str(folder) in found
    web.push(NAME, folder)
    found = refused(capsys, NAME)
    assert said in found and found.startswith(f"error: {NAME}") and "cache" not in found
    assert "model.safetensors" not in web.downloads()


def step(folder, out):
    """Return the model step's command on a folder, as its rule gives it."""
    section = {"folder": str(folder), "files": model_folder.digests(folder, model_folder.files_of(folder))}
    config = json.dumps({"model": section, "triggers": {"signs": "auto"}})
    return ["transformer-model", "--config", config, "--files", *(folder / name for name in section["files"]),
            "--weights", out / "model.safetensors", "--description", out / "model.json", "--info", out / "info.json",
            "--types", out / "types.json"]  # fmt: skip


def test_weights_that_are_only_pickled_are_read_without_running_them(web, project, folder):
    whole = tiny.model("gpt2", change={"vocab_size": 300})
    run(*step(folder, project / "safe"))
    (folder / "model.safetensors").unlink()
    torch.save(whole.state_dict(), folder / "pytorch_model.bin")
    web.push(NAME, folder)
    assert "pytorch_model.bin" in init(NAME).model.files
    assert "pytorch_model.bin" in init(folder, "--force").model.files
    run(*step(folder, project / "pickled"))
    safe, pickled = (project / kind / "model.safetensors" for kind in ("safe", "pickled"))
    assert safe.read_bytes() == pickled.read_bytes()


def test_a_gguf_file_of_the_hub_is_pinned_and_converted(web, project, capsys):
    gguf_files.save(project / "m.inputs.gguf")
    content = (project / "m.inputs.gguf").read_bytes()
    (project.parent / "shared").mkdir()
    (project.parent / "shared" / "m.inputs.gguf").write_bytes(content)
    web.push("tiny/shared", project.parent / "shared")
    run("init", "my.yaml", "--model", "tiny/shared:m.inputs.gguf", *TEXTS)
    capsys.readouterr()
    made = Run(yaml.safe_load(Path("my.yaml").read_text()), "my.yaml")
    assert made.inputs.gguf == {f"{made.inputs.pinned_on_hub.folder}/m.inputs.gguf": sha256(content)}
    assert all(Path(path).is_file() for path in made.inputs.model_files)
    assert all((made.inputs.pinned_on_hub.folder / name).is_file() for name in made.inputs.pinned_on_hub.files)
    assert "name one of m.inputs.gguf" in says(capsys, "init", "b.yaml", "--model", "tiny/shared:n.inputs.gguf", *TEXTS)
    assert "holds GGUF files alone" in says(capsys, "init", "b.yaml", "--model", "tiny/shared", *TEXTS)
