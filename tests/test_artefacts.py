"""Artefacts: what was published is there on a clone, adopt records nothing unsound, both tools do the same."""

import json
import os
import shutil

import pytest
import yaml
from conftest import ROOT
from projects import RESULTS, configure, due, files, publish, restored, run, size, steps

from ff_memories import stages
from ff_memories.errors import UserError
from ff_memories.steps.triggers import remove_others

LIMIT = 40_000_000  # bytes in artefacts/, so that a clone stays light


@pytest.fixture(scope="session")
def published(planted_run, tmp_path_factory):
    return publish(planted_run, tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def fresh(published, tmp_path_factory):
    return restored(published, tmp_path_factory.mktemp("clones") / "fresh")


@pytest.fixture
def copy(fresh, tmp_path):
    shutil.copytree(fresh, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


def test_on_a_clone_pull_and_restore_leave_nothing_to_do(fresh, published):
    assert not due(fresh)
    assert "up to date" in run(fresh, "dvc", "status").stdout
    mine, theirs = files(fresh / RESULTS), files(published / RESULTS)
    stored = yaml.safe_load((published / "dvc.lock").read_text())["stages"].values()
    private = {out["path"] for stage in stored for out in stage["outs"] if not stages.SHARED.search(out["path"])}
    under = tuple(path.removeprefix(f"{RESULTS}/") for path in private)
    rebuilt = {name for name in mine if name.startswith(under)}
    assert {"report/report.html", "report/table1.csv", "corpus/corpus.safetensors", "gallery/index.html"} <= rebuilt
    assert all(mine[name] == theirs[name] for name in rebuilt)


def test_no_artefact_that_is_pushed_shows_the_text(published):
    text = (published / "train.txt").read_text() + (published / "validation.txt").read_text()
    phrases = {line.encode() for line in text.split("\n") if line.count(" ") >= 6}
    pushed = files(published / "artefacts")
    assert len(phrases) > 100
    assert len(pushed) > 60
    assert not [name for name, content in pushed.items() if any(phrase in content for phrase in phrases)]
    stored = set(pushed)
    for stage in yaml.safe_load((published / "dvc.lock").read_text())["stages"].values():
        for out in stage["outs"]:
            assert (f"files/md5/{out['md5'][:2]}/{out['md5'][2:]}" in stored) == bool(stages.SHARED.search(out["path"]))


def test_what_comes_with_the_project_stays_small():
    assert size(ROOT / "artefacts") <= LIMIT


def test_both_tools_run_the_same_steps_and_leave_the_same_lock(copy, fresh, tmp_path):
    shutil.copytree(fresh, tmp_path / "other", symlinks=True)
    locks = []
    for folder, tool in (
        (copy, ["snakemake", "-q", "all"]),
        (tmp_path / "other", ["dvc", "repro", "-q", "--force-downstream"]),
    ):
        configure(folder, "figures.figure4.width", 300)
        assert steps(folder, *tool) == {"figure4", "report"}
        run(folder, "ff-memories", "adopt")
        locks.append((folder / "dvc.lock").read_bytes())
        assert not due(folder)
    assert locks[0] == locks[1]


def test_how_many_shards_there_are_changes_nothing(copy):
    configure(copy, "execution.shards", 3)
    assert not due(copy)
    assert "up to date" in run(copy, "dvc", "status").stdout


def test_shards_of_another_cut_are_removed(tmp_path):
    for name in ("1-of-2", "2-of-2", "1-of-3", "3-of-3", "notes"):
        (tmp_path / f"{name}.safetensors").touch()
    remove_others([str(tmp_path / f"{n}-of-2.safetensors") for n in (1, 2)])
    assert {p.stem for p in tmp_path.iterdir()} == {"1-of-2", "2-of-2", "notes"}


def test_an_edited_output_is_not_adopted_and_is_due_after_restore(copy):
    figure = copy / RESULTS / "figures" / "figure4.csv"
    whole = figure.read_bytes()
    figure.write_bytes(whole.replace(b"1", b"2"))
    refused = run(copy, "ff-memories", "adopt", check=False)
    assert refused.returncode == 2
    assert f"{RESULTS}/figures/figure4.csv: changed since figure wrote it" in refused.stderr
    said = run(copy, "ff-memories", "restore").stdout
    assert f"due again: figure-figure4 ({RESULTS}/figures/figure4.csv is not what dvc.lock records)" in said
    assert steps(copy, "snakemake", "-q", "all") == {"figure4", "report"}
    assert figure.read_bytes() == whole
    assert "nothing new" in run(copy, "ff-memories", "adopt").stdout


def test_no_step_computes_on_an_edited_file(copy):
    table = copy / RESULTS / "tables" / "claims.parquet"
    table.write_bytes((copy / RESULTS / "tables" / "counts.parquet").read_bytes())
    refused = run(copy, "snakemake", check=False)
    assert refused.returncode
    assert "claims.parquet (made by claims)" in refused.stderr + refused.stdout
    assert "ff-memories restore" in refused.stderr + refused.stdout


def test_snakemake_does_not_start_beside_dvc(copy):
    lock = copy / ".dvc" / "tmp" / "rwlock"
    lock.parent.mkdir(exist_ok=True)
    lock.write_text(json.dumps({"write": {"results": {"pid": os.getpid(), "cmd": "dvc repro"}}, "read": {}}))
    refused = run(copy, "snakemake", "-n", check=False)
    assert refused.returncode
    assert "`dvc repro` is at work here" in refused.stderr + refused.stdout


def test_a_lock_that_is_missing_or_broken_is_named(copy):
    from ff_memories.artefacts import lock

    here = os.getcwd()
    os.chdir(copy)
    try:
        (copy / "dvc.lock").write_text("stages: {claims: [}")
        with pytest.raises(UserError, match=r"dvc\.lock: not a lock that DVC wrote"):
            lock.read()
        (copy / "dvc.lock").unlink()
        with pytest.raises(UserError, match="nothing of this run was recorded"):
            lock.read()
    finally:
        os.chdir(here)
