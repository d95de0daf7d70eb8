"""Artefacts: what was published is there on a clone, adopt records nothing unsound, both tools do the same."""

import shutil

import pytest
import yaml
from projects import RESULTS, configure, due, files, git, restored, run, size, steps
from running import ROOT

from ff_memories.workflow import dvc_yaml

pytestmark = pytest.mark.more

LIMIT = 70_000_000  # bytes in .dvc/artefacts/, so that a clone stays light


def test_on_a_clone_pull_and_restore_leave_nothing_to_do(fresh, published):
    assert not due(fresh)
    assert "up to date" in run(fresh, "dvc", "status").stdout
    mine, theirs = files(fresh / RESULTS), files(published / RESULTS)
    stored = yaml.safe_load((published / "dvc.lock").read_text())["stages"].values()
    remade = {out["path"] for stage in stored for out in stage["outs"] if not dvc_yaml.is_kept(out["path"])}
    under = tuple(path.removeprefix(f"{RESULTS}/") for path in remade)
    rebuilt = {name for name in mine if name.startswith(under)}
    assert {"report/report.html", "report/table1.csv", "corpus/corpus.safetensors", "gallery/index.html"} <= rebuilt
    assert {"figures/figure4.svg", "figures/figure4.csv", "figures/figure4.html"} <= rebuilt
    assert all(mine[name] == theirs[name] for name in rebuilt)


def test_a_recorded_clone_stays_clean_though_a_comment_changed_since_the_record(published, tmp_path):
    project = tmp_path / "project"
    shutil.copytree(published, project, symlinks=True)
    with open(project / "src/ff_memories/steps/corpus.py", "a", encoding="utf-8") as file:
        file.write("# a comment\n")
    run(project, "ff-memories", "dvc-yaml")
    git(project, "commit", "-qam", "a comment")
    folder = restored(project, tmp_path / "clone")
    assert "up to date" in run(folder, "dvc", "status").stdout
    assert "Running stage" not in run(folder, "dvc", "repro").stdout
    git(folder, "diff", "--exit-code")
    assert git(folder, "status", "--porcelain") == ""


def test_no_artefact_that_is_pushed_shows_the_text(published):
    text = (published / "train.txt").read_text() + (published / "validation.txt").read_text()
    phrases = {line.encode() for line in text.split("\n") if line.count(" ") >= 6}
    pushed = files(published / ".dvc/artefacts")
    assert len(phrases) > 100
    assert len(pushed) > 60
    assert not [name for name, content in pushed.items() if any(phrase in content for phrase in phrases)]
    stored = set(pushed)
    for stage in yaml.safe_load((published / "dvc.lock").read_text())["stages"].values():
        for out in stage["outs"]:
            assert (f"files/md5/{out['md5'][:2]}/{out['md5'][2:]}" in stored) == dvc_yaml.is_kept(out["path"])


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
    assert refused.returncode == 2
    assert f"{RESULTS}/summary.md: changed since report wrote it" in refused.stderr
    assert run(copy, "ff-memories", "restore").stdout == "rebuilt: report\nup to date\n"
    assert steps(copy, "snakemake", "-q", "all") == set()
    assert summary.read_bytes() == whole
    assert "nothing new" in run(copy, "ff-memories", "adopt").stdout


def test_no_step_computes_on_an_edited_file(copy):
    table = copy / RESULTS / "tables" / "claims.parquet"
    table.write_bytes((copy / RESULTS / "tables" / "counts.parquet").read_bytes())
    refused = run(copy, "snakemake", check=False)
    assert refused.returncode
    assert "claims.parquet (made by claims)" in refused.stderr + refused.stdout
    assert "ff-memories restore" in refused.stderr + refused.stdout
