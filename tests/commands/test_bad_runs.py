"""What is no sound run, or no pair of runs, ends in one clear line that names it."""

import errno
import json
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import polars as pl
import pytest
import yaml
from pipeline import config
from refusing import ended, says

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.commands import init
from ff_memories.workflow import dvc_lock_file, opening
from ff_memories.workflow.run import DEFAULT

INFO = {"layers": 1, "keys": 4, "vocab": 9, "adaptive_output": True, "final_norm": True, "max_positions": 9}
TRIGGERS = {
    "layer": [1, 1], "key": [0, 1], "rank": [1, 1], "coefficient": [2.0, 1.0], "sentence": [0, 1], "position": [1, 2],
    "next_token": [5, 6],
}  # fmt: skip


def write_run(folder, scope="surrogate", **columns):
    """Write a run of one table and its model's info; ``columns`` replace the table's."""
    frame = pl.DataFrame(TRIGGERS | columns, schema=tables.TABLES["triggers"].columns)
    tables.write(frame, folder / "tables" / "triggers.parquet")
    (folder / "model").mkdir()
    (folder / "model" / "info.json").write_text(json.dumps(INFO | {"scope": scope}))
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A project with two runs; the config of one is here."""
    monkeypatch.chdir(tmp_path)
    Path("config").mkdir()
    DEFAULT.write_text(yaml.safe_dump(config()))
    write_run(Path("results/small"))
    write_run(Path("results/other"), coefficient=[3.0, 1.0])


@pytest.mark.parametrize("words", ["verify", "adopt", "restore", "plan", "show --layer 1 --key 0", "trace text"])
def test_a_runs_folder_without_its_config_is_named(here, capsys, words):
    said = says(capsys, *words.split(), "--configfile", "results/other")
    assert said == "error: results/other: no config of this run is here\n  fix: name its config with --configfile\n"


@pytest.mark.parametrize("command", ["run", "init new.yaml"])
@pytest.mark.parametrize(
    "fault", [UserError("no such model"), KeyboardInterrupt(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))]
)
def test_a_new_run_that_cannot_be_leaves_no_part_of_its_text(tmp_path, monkeypatch, capsys, fault, command):
    monkeypatch.chdir(tmp_path)
    Path("my.txt").write_text("".join(f"Line {i}.\n" for i in range(40)))
    monkeypatch.setattr(init, "_found", Mock(side_effect=fault))
    for kept in ([], [Path("data/text/other.train.txt")]):
        for path in kept:
            path.parent.mkdir(parents=True)
            path.touch()
        assert ended(*command.split(), "--model", "any", "--text", "my.txt")
        assert len(capsys.readouterr().err.splitlines()) == 1
        assert {path for path in Path().rglob("*") if path.is_file()} == {*kept, Path("my.txt")}
        assert Path("data").exists() == bool(kept)


@pytest.mark.parametrize("folder", [".", "config", "results", "results/small/tables"])
def test_a_folder_that_is_no_runs_is_named(here, folder):
    with pytest.raises(UserError, match="expected a file, found a directory that is no run's folder of this project"):
        opening.opened(Path(folder))


def test_a_runs_folder_stands_for_its_config(here):
    assert opening.opened(Path("results/small")).is_default
    Path("my.yaml").write_text(yaml.safe_dump(config(run="other")))
    run = opening.opened(Path("results/other"))
    assert (run.file, run.option, run.dvc_lock) == ("my.yaml", " --configfile my.yaml", Path("runs/other/dvc.lock"))


def test_two_configs_of_one_run_are_named(here):
    for seed in (1, 2):
        Path(f"my{seed}.yaml").write_text(yaml.safe_dump(config(run="other", seed=seed)))
    with pytest.raises(UserError, match=r"several configs have the run 'other': my1\.yaml, my2\.yaml"):
        opening.opened(Path("results/other"))


def test_the_default_config_named_is_the_default_run(here):
    assert opening.opened(DEFAULT).dvc_lock == Path("dvc.lock")


@pytest.mark.parametrize(
    "damage, said",
    [
        (
            lambda path: pl.read_parquet(path).drop("position").write_parquet(path),
            "other/tables/triggers.parquet: does not have the columns of the table 'triggers'",
        ),
        (lambda path: path.write_bytes(path.read_bytes()[:40]), "triggers.parquet: cannot be read as a table"),
        (lambda path: path.unlink(), "results/other: has no tables of a run"),
        (lambda path: shutil.rmtree(path.parents[1]), "results/other: no such folder or dvc.lock"),
    ],
    ids=["of another version", "cut short", "without tables", "not there"],
)
def test_compare_names_what_a_run_lacks(here, capsys, damage, said):
    damage(Path("results/other/tables/triggers.parquet"))
    assert said in says(capsys, "compare", "results/small", "results/other")


def test_compare_refuses_runs_of_unlike_scope_and_one_run_twice(here, capsys):
    shutil.rmtree("results/other")
    write_run(Path("results/other"), scope="model")
    assert "are runs of two models" in says(capsys, "compare", "results/small", "results/other")
    Path("link").symlink_to("results/small")
    assert "results/small and link are the same run" in says(capsys, "compare", "results/small", "link")


@pytest.mark.parametrize("table, said", [("triggers", "triggers, layer 1 key 0"), ("examples", "examples: only one")])
def test_compare_says_what_only_one_run_has(here, capsys, table, said):
    frame = pl.DataFrame(schema=tables.TABLES[table].columns)  # without rows; the other run has rows, or no such table
    tables.write(frame, Path(f"results/other/tables/{table}.parquet"))
    assert ended("compare", "results/small", "results/other") == 1
    shown = capsys.readouterr()
    assert shown.err == ""
    assert said in shown.out and shown.out.splitlines()[-1] == "different"


def test_a_model_that_was_deleted_since_is_named_by_what_runs_it(here, capsys):
    shutil.rmtree("results/small/model")
    assert "results/small/model/model.safetensors: no such file" in says(capsys, "show", "--layer", 1, "--key", 0)
    for words in ("trace text", "verify", "export neuronpedia --out x"):
        assert "results/small/model/info.json: no such file\n  fix: " in says(capsys, *words.split()), words


def test_a_run_that_was_never_recorded_is_named(here):
    with pytest.raises(UserError, match=r"dvc\.lock: this run has not been recorded yet"):
        dvc_lock_file.read(opening.opened(DEFAULT))
