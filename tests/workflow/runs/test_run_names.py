"""Two configs with one run's name: the second does not overwrite the results of the first without a word."""

import shutil
from pathlib import Path

import pytest
import yaml
from pipeline import config
from refusing import says
from running import ROOT, command, snakemake
from transformers_run import prepare

from ff_memories.base.errors import UserError
from ff_memories.config import parse
from ff_memories.workflow.runs import run_names

pytestmark = pytest.mark.slow


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder whose run `small` was started with my.yaml, and has results."""
    monkeypatch.chdir(tmp_path)
    write("my.yaml")
    run_names.keep(parse(config()), "my.yaml")
    Path("results/small").mkdir(parents=True)
    return tmp_path


def write(path, **changes):
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(yaml.safe_dump(config(**changes)))


def taken(file="other.yaml", **changes):
    """Return what is said of a config that wants the run; nothing if it may have it."""
    try:
        run_names.refuse_taken(parse(config(**changes)), file)
    except UserError as error:
        return str(error)
    return ""


def test_another_config_with_other_settings_is_refused(here):
    said = taken(seed=4)
    assert said.startswith(
        "other.yaml: the run small is that of my.yaml, which has other settings; its results are in "
    )
    assert "results/small\n  fix: choose another name for this run, or remove the other config" in said


@pytest.mark.parametrize("changes", [{}, {"execution__shards": 7}])
def test_a_copy_is_no_other_config_nor_is_one_for_another_machine(here, changes):
    assert not taken(**changes)


def test_a_config_may_be_edited_renamed_or_replaced(here):
    assert not taken("my.yaml", seed=4)
    assert not taken(str(here / "my.yaml"), seed=4)
    Path("my.yaml").rename("mine.yaml")
    assert not taken("mine.yaml", seed=4)
    write("my.yaml", run="another")
    assert not taken(seed=4)


def test_without_results_nothing_is_lost(here):
    shutil.rmtree("results")
    assert not taken(seed=4)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"config": null}'])
def test_a_damaged_record_tells_nothing(here, content):
    (here / run_names.RECORDS / "small.json").write_text(content)
    assert not taken(seed=4)


def test_where_nobody_recorded_the_config_others_are_named(here):
    doubts = lambda **changes: run_names.doubts(parse(config(**changes)), "other.yaml")
    assert not doubts(seed=4)
    shutil.rmtree(run_names.RECORDS)
    (said,) = doubts(seed=4)
    assert said.startswith("other.yaml: my.yaml has the run small too, with other settings; ")
    assert not doubts()
    for name, text in (("config/bad.yaml", "run: small\n- x"), ("dvc.yaml", "stages: {}"), ("run.yaml", "run: small")):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    assert doubts(seed=4) == [said]


@pytest.mark.parametrize("kept", [True, False])
def test_init_refuses_the_name_of_another_configs_run(tmp_path, monkeypatch, capsys, kept):
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path, "gpt2", run="own")
    (tmp_path / "my.yaml").rename(tmp_path / "first.yaml")
    if kept:
        run_names.keep(parse(yaml.safe_load(Path("first.yaml").read_text())), "first.yaml")
        Path("results/own").mkdir(parents=True)
    given = ["--model", "model", "--train", "train.txt", "--validation", "validation.txt"]
    capsys.readouterr()
    said = says(capsys, "init", "own.yaml", *given)
    assert "own.yaml: the run own is that of first.yaml" in said and not Path("own.yaml").exists()
    says(capsys, "init", "new.yaml", *given, "--set", "run=own")
    command("ff-memories", "init", "new.yaml", *given, cwd=tmp_path, PYTHONPATH=str(ROOT / "src"))


@pytest.mark.more
@pytest.mark.workflow
def test_snakemake_refuses_it_before_the_first_job_and_the_commands_still_read_the_run(tmp_path):
    settings = prepare(tmp_path, "gpt2")
    first = ["results/small/model/info.json"]
    snakemake(tmp_path, *first)
    info = (tmp_path / first[0]).read_bytes()
    shutil.copyfile(tmp_path / "my.yaml", tmp_path / "first.yaml")
    (tmp_path / "first.yaml").rename(tmp_path / "my.yaml")
    other = yaml.safe_dump(settings | {"seed": 9, "model": {"folder": "model", "start": "."}})
    (tmp_path / "other.yaml").write_text(other)
    given = ["--snakefile", ROOT / "Snakefile", "--cores", "1", "--configfile", "other.yaml"]
    done = command("snakemake", *given, "--", *first, cwd=tmp_path, check=False)
    assert done.returncode and "other.yaml: the run small is that of my.yaml" in done.stderr
    assert "Traceback" not in done.stderr and (tmp_path / first[0]).read_bytes() == info
    (tmp_path / "my.yaml").unlink()
    command("snakemake", *given, "--", *first, cwd=tmp_path)
    assert (tmp_path / first[0]).read_bytes() != info
