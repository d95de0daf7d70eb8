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
from ff_memories.workflow import opening
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


@pytest.mark.parametrize("words", ["verify", "adopt", "restore", "plan", "trace text"])
def test_a_runs_folder_without_its_config_is_named(here, capsys, words):
    said = says(capsys, *words.split(), "--configfile", "results/other")
    assert "error: results/other: no folder of a run whose config is here\n  fix: name its config" in said


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


def test_a_folder_stands_for_its_run_or_is_named(here):
    for folder in (".", "config", "results/small/tables"):
        with pytest.raises(UserError, match="no folder of a run whose config is here"):
            opening.opened(Path(folder))
    assert opening.opened(Path("results/small")).is_default and opening.opened(DEFAULT).dvc_lock == Path("dvc.lock")
    Path("my.yaml").write_text(yaml.safe_dump(config(run="other")))
    run = opening.opened(Path("results/other"))
    assert (run.file, run.option, run.dvc_lock) == ("my.yaml", " --configfile my.yaml", Path("runs/other/dvc.lock"))
    Path("my2.yaml").write_text(yaml.safe_dump(config(run="other", seed=2)))
    with pytest.raises(UserError, match=r"several configs have the run 'other': my\.yaml, my2\.yaml"):
        opening.opened(Path("results/other"))


def test_compare_names_what_a_run_lacks(here, capsys):
    path = Path("results/other/tables/triggers.parquet")
    pl.read_parquet(path).drop("position").write_parquet(path)
    said = says(capsys, "compare", "results/small", "results/other")
    assert "other/tables/triggers.parquet: does not have the columns of the table 'triggers'" in said
    path.unlink()
    assert "results/other: has no tables of a run" in says(capsys, "compare", "results/small", "results/other")


def test_a_model_that_was_deleted_since_is_named_by_what_runs_it(here, capsys):
    shutil.rmtree("results/small/model")
    for words in ("trace text", "verify"):
        assert "results/small/model/info.json: no such file\n  fix: " in says(capsys, *words.split()), words
