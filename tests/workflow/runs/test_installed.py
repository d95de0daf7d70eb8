"""The package from a wheel, in an empty folder: what `pip install` brings is whole, and the workflow is a module."""

import hashlib
import os
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
import transformers_run
import yaml
from projects import git
from refusing import ended
from running import ROOT, command

from ff_memories.workflow import opening
from ff_memories.workflow.dvc_lock_file import digest


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    command("python", "-m", "hatchling", "build", "-t", "sdist", "-d", folder)
    command("python", "-m", "pip", "wheel", *options, "--wheel-dir", folder, next(folder.glob("*.tar.gz")))
    return next(folder.glob("*.whl"))


def _recorded():
    """Return {file of the demo's model: MD5} as DVC recorded them."""
    names = ("data/demo/model.pt", "data/demo/dict.txt")
    return {name: yaml.safe_load((ROOT / f"{name}.dvc").read_text())["outs"][0]["md5"] for name in names}


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return a folder with the package as a wheel installs it."""
    to = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(to)
    return to


@pytest.fixture
def run(installed, tmp_path):
    """Return a function that runs the installed command in an empty folder with a model and a text."""
    transformers_run.prepare(tmp_path, "llama", train=120, validation=40)
    texts = [tmp_path / f"{part}.txt" for part in ("train", "validation")]
    (tmp_path / "my.txt").write_text("".join(text.read_text() for text in texts))
    for path in (*texts, tmp_path / "my.yaml"):
        path.unlink()

    def call(*words, check=True, cwd=tmp_path):
        return command("python", "-m", "ff_memories.cli", *words, cwd=cwd, check=check,
                       PYTHONPATH=str(installed), HOME=str(tmp_path))  # fmt: skip

    return call


NEW = ("run", "--model", "./model", "--text", "my.txt", "--name", "tried", "--cores", "2")
SMALL = ("--set", "triggers.top=5", "mutations.keys_per_layer=4", "gallery.keys=4", "baselines.models=1")


def test_a_wheel_has_every_file_of_the_package_and_of_the_workflow(wheel):
    archive = zipfile.ZipFile(wheel)
    held = set(archive.namelist())
    listed = git(ROOT, "ls-files", "src/ff_memories", "workflow/rules", "workflow/report", "profiles", "config")
    listed = [*listed.splitlines(), "Snakefile", "workflow/Snakefile"]
    listed += ["data/enwik8.py", "data/llama2c.py", "data/sampled_text.py"]
    names = [Path(name) for name in listed if (ROOT / name).is_file()]
    lacking = [name for name in names if _place(name) not in held]
    assert len(names) > 300 and not lacking
    model = {name: f"ff_memories/project/{name}" for name in _recorded()}
    assert {name: hashlib.md5(archive.read(model[name])).hexdigest() for name in model} == _recorded()
    assert sum(part.compress_size for part in archive.infolist() if part.filename not in model.values()) < 3_000_000


@pytest.mark.parametrize("target", ["wheel", "setup"])
def test_nothing_but_the_tests_needs_a_compiler(tmp_path, target):
    for name in ("Makefile", "pyproject.toml", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    planned = subprocess.run(["make", "-n", target], cwd=tmp_path, text=True, capture_output=True, check=True).stdout
    assert " -m pip " in planned and "fairseq" not in planned and ("demo" in planned) == (target == "setup")


def _place(name):
    return str(name.relative_to("src")) if name.parts[0] == "src" else f"ff_memories/project/{name}"


@pytest.mark.more
@pytest.mark.workflow
def test_somebody_elses_workflow_takes_ours_as_a_module(installed, tmp_path):
    theirs = {"theirs": 1, "ff": transformers_run.prepare(tmp_path, "gpt2", train=20, validation=10)}
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(theirs))
    page = (ROOT / "docs/cluster.md").read_text(encoding="utf-8")
    snippet = textwrap.dedent(re.search(r"( +configfile: .*?)\n\n\S", page, re.S)[1])
    for form in (snippet, snippet.partition(" as ff_*")[0]):
        (tmp_path / "Snakefile").write_text(form)
        planned = command("snakemake", "-n", "--cores", "1", cwd=tmp_path, PYTHONPATH=str(installed))
        assert re.search(r"^(ff_)?claims +1$", planned.stdout + planned.stderr, re.M)
    assert opening.configs("small", tmp_path)[0][0][0] == tmp_path / "results/small/config.yaml"


@pytest.mark.more
@pytest.mark.workflow
def test_two_modules_of_one_workflow_are_cut_alike(tmp_path):
    ours = transformers_run.prepare(tmp_path, "gpt2", train=20, validation=10)
    ours["execution"]["shards"] = "auto"
    (tmp_path / "my.yaml").write_text(yaml.safe_dump({"a": ours, "b": {**ours, "run": "other"}}))
    module = f'module {{0}}:\n    snakefile: "{ROOT}/workflow/Snakefile"\n    config: config["{{0}}"]\n'
    forms = [f"{module.format(name)}use rule * from {name} as {name}_*\n" for name in "ab"]
    (tmp_path / "Snakefile").write_text("\n".join(['configfile: "my.yaml"', *forms]))
    planned = command("snakemake", "-n", "--cores", "2", "a_all", "b_all", cwd=tmp_path)
    rules = re.findall(r"^([ab])_(\w+) +(\d+)$", (planned.stdout + planned.stderr).partition("\ntotal")[0], re.M)
    assert {row[1:] for row in rules if row[0] == "a"} == {row[1:] for row in rules if row[0] == "b"} != set()


@pytest.mark.more
def test_the_installed_command_checks_a_run_before_snakemake_starts(run, tmp_path):
    dry = run(*NEW, *SMALL, "seed=2", "--dry-run")
    assert "split by lines" in dry.stdout and "results go to results/tried/" in dry.stdout
    assert "triggers" in dry.stdout + dry.stderr
    assert str(tmp_path) not in (tmp_path / "tried.yaml").read_text()  # so the folder can be moved
    assert run(*NEW, *SMALL, "seed=2", "--dry-run").stdout.startswith("going on with tried.yaml")
    for words, says in {
        (*NEW, "--set", "triggers.top=6"): "made by other options",
        ("run", "dmo"): "dmo: no such config (did you mean demo?)",
        ("run", "demo-llama"): "data/demo-llama/config.json: this package was built without it",
        ("run", "--model", "./model", "--text", "my.txt", "--name", "../other"): "--name ../other: expected letters",
    }.items():
        told = run(*words, check=False)
        assert told.returncode == 2 and says in told.stderr and "Traceback" not in told.stderr, told.stderr
        assert len(told.stderr.splitlines()) <= 2


@pytest.mark.long
@pytest.mark.workflow
def test_a_run_in_an_empty_folder_can_be_shared_and_has_the_bytes_of_a_clone_s(run, tmp_path):
    run(*NEW, *SMALL)
    made = tmp_path / "results/tried"
    run("share", "results/tried")
    (tmp_path / "elsewhere").mkdir()
    given = ("--model", "../model", "--text", "../my.txt")  # which is split again, as the run split it
    checked = run("verify", "../tried.zip", *given, cwd=tmp_path / "elsewhere")
    assert checked.stdout.splitlines()[-1].startswith("VERIFIED") and not list((tmp_path / "elsewhere").iterdir())
    assert (made / "report/report.html").is_file()
    kept = {path: digest(path) for name in ("tables", "models") for path in (made / name).rglob("*.parquet")}
    text = (made / "claims.json").read_bytes()
    last = run(*NEW, *SMALL)
    assert "Nothing to be done" in last.stderr and "report results/tried/report/report.html, " in last.stderr
    made.rename(tmp_path / "kept")
    command("snakemake", "--snakefile", ROOT / "Snakefile", "--configfile", "tried.yaml", "--cores", "2",
            "--until", "claims", cwd=tmp_path)  # fmt: skip
    again = {path: digest(path) for path in kept if path.is_file()}
    assert {"triggers", "values", "mutations", "claims"} <= {path.stem for path in again}
    assert again == {path: kept[path] for path in again} and (made / "claims.json").read_bytes() == text


def test_a_run_goes_to_snakemake_with_its_own_options(tmp_path, monkeypatch):
    transformers_run.prepare(tmp_path, "gpt2")
    monkeypatch.chdir(tmp_path)
    called = []
    monkeypatch.setattr(os, "execv", lambda program, words: called.append(words))
    words = ["run", "my.yaml", "--cores", "3", "--gpus", "2", "--", "--keep-going", "-p"]
    assert ended(*words) == 0
    options = ["--configfile", "my.yaml", "--resources", "gpu=2", "--cores", "3", "--keep-going", "-p"]
    logger = [sys.executable, "-m", "ff_memories.workflow.terminal_logger"]
    assert called == [[*logger, "--snakefile", str(ROOT / "Snakefile"), *options]]
