"""Configs whose names and paths would run commands, escape their folder or pass for options."""

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


@pytest.mark.parametrize("name", ["a; touch ran", "$(x)", "a b", "../up", "/x", "-rf", ".hidden", "a\n", "é", "a" * 65])
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
PLACES = {
    "checkpoint": lambda path: Run(config(model__checkpoint=path), "my.yaml"),
    "dictionary": lambda path: Run(config(model__dictionary=path), "my.yaml"),
    "text": lambda path: Run(config(corpus__train__files=[path]), "my.yaml"),
    "sample": lambda path: Run(config(composition__sample_file=path), "my.yaml"),
    "registry": lambda path: Run(config(sources={"registry": path}), "my.yaml"),
    "config": lambda path: Run(config(), path),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("path", PATHS)
def test_what_cannot_be_a_path_on_a_command_line_is_refused(place, path):
    with pytest.raises(UserError, match=PATHS[path]):
        PLACES[place](path)


ROW = """
[x]
kind = "text"
folder = "data/x"
files = { train = "a.txt", validation = "b.txt" }
unpacked_bytes = 1
licence = ""
citation = ""
downloads = []
"""


@pytest.mark.parametrize("old, new, said", [
    ("data/x", "../up", "x.folder"), ("data/x", "/etc", "x.folder"), ("data/x", "workflow/rules", "x.folder"),
    ("data/x", "data/../../up", "x.folder"), ("data/x", "data/a;b", "x.folder"), ("data/x", "-x", "x.folder"),
    ("a.txt", "../a", "x.files"), ("a.txt", "/etc/passwd", "x.files"),
    ("[x]", '[x]\ngolden = "../../secret.toml"', "x.golden"), ("[x]", '[x]\ninside = "../x"', "x.inside"),
    (', validation = "b.txt"', "", "x: files: missing validation"),
])  # fmt: skip
def test_a_registry_writes_nowhere_but_into_the_project_and_lacks_nothing_that_a_run_reads(tmp_path, old, new, said):
    (tmp_path / "r.toml").write_text(ROW)
    assert registry.read(tmp_path / "r.toml")["x"].path("train") == "data/x/a.txt"
    (tmp_path / "r.toml").write_text(ROW.replace(old, new))
    with pytest.raises(UserError, match=f"r.toml: {said}"):
        registry.read(tmp_path / "r.toml")
