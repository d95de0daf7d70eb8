"""Configs whose names and paths would run commands, escape their folder or pass for options."""

import json
import os
import shlex
import shutil

import pytest
import yaml
from pipeline import config
from planted_run import prepare
from running import snakemake

from ff_memories.base.errors import UserError
from ff_memories.config import parse
from ff_memories.inputs import registry
from ff_memories.workflow import jobs
from ff_memories.workflow.run import Run

pytestmark = pytest.mark.more

NASTY = {
    "model.pt": "a; touch ran; b.pt",
    "dict.txt": "$(touch ran) `touch ran` dict.txt",
    "train.txt": 'it\'s "quoted" & touch ran | tee #~*.txt',
    "validation.txt": "sub folder/é > ran < x \\ !.txt",
}


@pytest.fixture
def nasty(tmp_path, monkeypatch):
    """The planted run with every input under a name that a shell would act on."""
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    for plain, name in NASTY.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.move(plain, name)
    settings = yaml.safe_load((tmp_path / "my.yaml").read_text())
    settings["model"] |= {"checkpoint": NASTY["model.pt"], "dictionary": NASTY["dict.txt"]}
    settings["corpus"]["train"]["files"] = [NASTY["train.txt"]]
    settings["corpus"]["validation"]["files"] = [NASTY["validation.txt"]]
    settings["sensitivity"] = {"choices": "quick"}
    (tmp_path / "annotations" / "planted").mkdir(parents=True)
    (tmp_path / "annotations" / "planted" / "$(touch ran).csv").write_text("")
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path


def test_every_rule_passes_every_name_as_one_word(nasty):
    """Of all jobs of a run: a name that a rule reads and its command names is one word of that command."""
    shutil.copy("my.yaml", "$(touch ran); my.yaml")
    ours = {*NASTY.values(), "annotations/planted/$(touch ran).csv", "$(touch ran); my.yaml"}
    seen = set()
    with jobs.workflow(Run.read(nasty / "$(touch ran); my.yaml"), forceall=True) as found:
        for job in found.dag.jobs:
            if not job.shellcmd:
                continue
            seen |= set(shlex.split(job.shellcmd)) & ours
            left = job.shellcmd
            for quoted in (job.params.get("config", ""), *ours):
                left = left.replace(shlex.quote(quoted), "")
            assert "touch ran" not in left, job.rule.name
    assert seen == ours
    assert not os.path.exists("ran")


def test_a_run_on_such_names_reads_them_and_runs_nothing(nasty):
    snakemake(nasty, "--", "results/planted/tables/sentences.parquet")
    assert (nasty / "results" / "planted" / "tables" / "sentences.parquet").exists()
    assert not list(nasty.rglob("ran"))


RUNS = ["a; touch ran", "$(touch ran)", "`x`", "a b", "../up", "a/b", "/tmp/x", "-rf", ".hidden", "a\n", "a\x00b", "é",
        "a" * 65, "", "a'b", 'a"b', "{x}", "a*", "~"]  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_runs_name_is_letters_digits_and_a_few_marks(name):
    with pytest.raises(UserError, match="run: "):
        parse(config(run=name))


PATHS = {
    "--out=/etc/passwd": "option",
    "a\nb.txt": r"U\+000A",
    "a\x1b[2Jb.txt": r"U\+001B",
    "a\u202eb.txt": r"U\+202E",
    "a\u2028b.txt": r"U\+2028",
    "a{wildcard}.txt": "braces",
}


@pytest.mark.parametrize("place", ["checkpoint", "dictionary", "train", "validation", "sample", "registry", "file"])
@pytest.mark.parametrize("path", PATHS)
def test_what_cannot_be_a_path_on_a_command_line_is_refused(place, path):
    data, name = config(), "my.yaml"
    if place in ("checkpoint", "dictionary"):
        data["model"][place] = path
    elif place in ("train", "validation"):
        data["corpus"][place]["files"] = [path]
    elif place == "sample":
        data["composition"]["sample_file"] = path
    elif place == "registry":
        data["sources"] = {"registry": path}
    else:
        name = path
    with pytest.raises(UserError, match=PATHS[path]):
        Run(data, name)


def row(**changes):
    files = {"train": "a.txt", "validation": "b.txt"}
    plain = {"kind": "text", "folder": "data/x", "files": files, "unpacked_bytes": 1}
    return plain | {"licence": "", "citation": "", "downloads": []} | changes


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + "}"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


def write_registry(path, given):
    path.write_text(f"x = {toml(given)}\n")


ESCAPES = [
    {"folder": "../up"}, {"folder": "/etc"}, {"folder": "workflow/rules"}, {"folder": "data/../../up"},
    {"folder": "-x"}, {"folder": "data/a;b"}, {"folder": "data/a\nb"}, {"files": {"train": "../a"}},
    {"files": {"train": "/etc/passwd"}}, {"files": {"train": "a b"}}, {"golden": "../../secret.toml"},
    {"inside": "../x"},
]  # fmt: skip


@pytest.mark.parametrize("change", ESCAPES)
def test_a_registry_writes_nowhere_but_into_the_project(tmp_path, change):
    write_registry(tmp_path / "r.toml", row())
    assert registry.read(tmp_path / "r.toml")["x"].path("train") == "data/x/a.txt"
    write_registry(tmp_path / "r.toml", row(**change))
    with pytest.raises(UserError, match=f"x.{next(iter(change))}"):
        registry.read(tmp_path / "r.toml")


MODEL = {"kind": "model", "files": {"checkpoint": "a", "dictionary": "b"}}


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"kind": "model", "files": {"dictionary": "dict.txt"}}, "x: files: missing checkpoint"),
        ({"kind": "text", "files": {"train": "a.txt"}}, "x: files: missing validation"),
        (MODEL | {"shape": {"layers": 1}}, "x: shape: missing model, keys"),
        ({"kind": "model", "files": {"checkpoint": "a", "dictionary": "b"},
          "shape": dict.fromkeys([*registry.SIZES, "width"], 1)}, "x: shape.width: unknown key"),
    ],
)  # fmt: skip
def test_a_source_that_lacks_what_a_run_reads_is_refused_with_its_registry(tmp_path, changes, said):
    write_registry(tmp_path / "r.toml", row(**changes))
    with pytest.raises(UserError, match=f"r.toml: {said}"):
        registry.read(tmp_path / "r.toml")
