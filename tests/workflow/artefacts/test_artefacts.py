"""Artefacts: what was published is there on a clone, adopt records nothing unsound, both tools do the same."""

import os
import shutil

import pytest
import yaml
from projects import RESULTS, configure, due, files, git, restored, run, size, steps
from running import ROOT

from ff_memories.workflow import dvc_yaml

pytestmark = pytest.mark.more

LIMIT = 70_000_000  # bytes in .dvc/artefacts/, so that a clone stays light


def test_on_a_clone_pull_and_restore_leave_nothing_to_do(fresh, recorded_run):
    assert not due(fresh)
    assert "up to date" in run(fresh, "dvc", "status").stdout
    mine, theirs = files(fresh / RESULTS), files(recorded_run / RESULTS)
    stored = yaml.safe_load((recorded_run / "dvc.lock").read_text())["stages"].values()
    remade = {out["path"] for stage in stored for out in stage["outs"] if not dvc_yaml.is_kept(out["path"])}
    under = tuple(path.removeprefix(f"{RESULTS}/") for path in remade)
    rebuilt = {name for name in mine if name.startswith(under)}
    some = "report/report.html report/table1.csv corpus/corpus.safetensors gallery/index.html figures/figure4.svg"
    assert set(some.split()) <= rebuilt and "models/sample.safetensors" in mine
    assert all(mine[name] == theirs[name] for name in rebuilt)


def test_a_recorded_clone_stays_clean_though_a_comment_changed_since_the_record(recorded_run, tmp_path):
    project = tmp_path / "project"
    shutil.copytree(recorded_run, project, symlinks=True)
    with open(project / "src/ff_memories/steps/corpus.py", "a", encoding="utf-8") as file:
        file.write("# a comment\n")
    run(project, "ff-memories", "dvc-yaml")
    git(project, "commit", "-qam", "a comment")
    folder = restored(project, tmp_path / "clone")
    assert "up to date" in run(folder, "dvc", "status").stdout
    assert "Running stage" not in run(folder, "dvc", "repro").stdout
    assert git(folder, "status", "--porcelain") == ""


def test_no_artefact_that_is_pushed_shows_the_text(recorded_run):
    text = (recorded_run / "train.txt").read_text() + (recorded_run / "validation.txt").read_text()
    phrases = {line.encode() for line in text.split("\n") if line.count(" ") >= 6}
    pushed = files(recorded_run / ".dvc/artefacts")
    assert len(phrases) > 100 and len(pushed) > 60
    assert not [name for name, content in pushed.items() if any(phrase in content for phrase in phrases)]
    for stage in yaml.safe_load((recorded_run / "dvc.lock").read_text())["stages"].values():
        for out in stage["outs"]:
            assert (f"files/md5/{out['md5'][:2]}/{out['md5'][2:]}" in pushed) == dvc_yaml.is_kept(out["path"])


def test_what_comes_with_the_project_stays_small():
    assert size(ROOT / ".dvc/artefacts") <= LIMIT


def test_both_tools_run_the_same_steps_and_leave_the_same_lock(copy, fresh, tmp_path):
    shutil.copytree(fresh, tmp_path / "other", symlinks=True)
    locks = []
    for folder, tool in ((copy, ["snakemake", "-q", "all"]), (tmp_path / "other", ["dvc", "repro", "-q"])):
        configure(folder, "figures.figure4.width", 300)
        assert steps(folder, *tool) == {"figures_4", "report"}
        run(folder, "ff-memories", "adopt")
        locks.append((folder / "dvc.lock").read_bytes())
        assert not due(folder)
    assert locks[0] == locks[1]


def test_an_edited_output_is_not_adopted_and_is_made_again_by_restore(copy):
    summary = copy / RESULTS / "summary.md"
    whole = summary.read_bytes()
    summary.chmod(0o644)
    summary.write_bytes(whole.replace(b"1", b"2"))
    refused = run(copy, "ff-memories", "adopt", check=False)
    assert refused.returncode == 2 and f"{RESULTS}/summary.md: changed since report wrote it" in refused.stderr
    assert run(copy, "ff-memories", "restore").stdout == "rebuilt: report\nup to date\n"
    assert steps(copy, "snakemake", "-q", "all") == set()
    assert summary.read_bytes() == whole
    for path in [copy / "dict.txt", *(copy / RESULTS / "tables").iterdir()]:  # as a copied folder has them
        os.utime(path)
    assert steps(copy, "snakemake", "-q", "all") == set()
    assert "nothing new" in run(copy, "ff-memories", "adopt").stdout


def test_a_table_that_was_edited_is_measured_again_after_restore_though_it_is_joined_from_shards(copy):
    table, other = (copy / RESULTS / "tables" / f"{name}.parquet" for name in ("mutations", "causal"))
    whole = table.read_bytes()
    table.write_bytes(other.read_bytes())
    for _ in range(2):
        assert f"{RESULTS}/tables/mutations.parquet modified" in run(copy, "ff-memories", "restore").stdout
    assert "mutations_joined" in steps(copy, "snakemake", "-q", "all")
    assert table.read_bytes() == whole
