"""A forger edits tables, rebuilds what follows, rehashes and deletes the logs: what `compare` and `verify` say."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from projects import run

from ff_memories import tables
from ff_memories.base import machine
from ff_memories.judge.register import register
from ff_memories.workflow import dvc_lock_file
from tools.qa import forgery

UNTRAINED = ("untrained-1", "untrained-2", "untrained-3")
MUTATED = ("K1", "K2", "K3", "K4", "K5")


def trained(folder):
    found = tables.read(folder / "tables/claims.parquet")
    return dict(found.select("claim", "training").iter_rows())


@pytest.mark.long
def test_forged_untrained_models_are_found_though_all_that_follows_was_rebuilt(recorded_run, tmp_path):
    """Removing a token changes nothing in the untrained models, so numbers seem to be due to training."""
    project = tmp_path / "project"
    shutil.copytree(recorded_run, project, symlinks=True)
    results = project / "results/planted"
    before = trained(results)
    for model in UNTRAINED:
        path = results / "models" / model / "tables/mutations.parquet"
        frame = tables.read(path)
        same = pl.col("coefficient")
        tables.write(frame.with_columns(mutated=same, change=pl.lit(0, pl.Float32)), path)
    shutil.rmtree(project / ".snakemake")  # whose records would give the edit away
    run(project, "snakemake", "--cores", "2")
    shutil.rmtree(results / "logs")
    run(project, "dvc", "commit", "--force", "--quiet")
    after = trained(results)
    turned = [claim for claim in MUTATED if before[claim] not in (after[claim], "higher", "lower")]
    assert turned, (before, after)
    done = run(project, "ff-memories", "verify", "--certificate", "certificate.json", check=False)
    assert done.returncode == 1 and done.stdout.splitlines()[-1].startswith("NOT VERIFIED")
    made = json.loads((project / "certificate.json").read_text())
    assert made["parts"]["record"]["faults"] == made["parts"]["files"]["faults"] == []
    assert any(f.startswith("untrained-") and ", mutations, " in f for f in made["parts"]["audit"]["faults"])


@pytest.mark.more
def test_a_log_that_claims_forged_untrained_models_excuses_nothing(recorded_run, tmp_path):
    project = tmp_path / "project"
    shutil.copytree(recorded_run, project, symlinks=True)
    path = project / "results/planted/models/untrained-1/tables/mutations.parquet"
    frame = tables.read(path)
    tables.write(frame.with_columns(mutated=pl.col("coefficient"), change=pl.lit(0, pl.Float32)), path)
    made = {path.relative_to(project).as_posix(): dvc_lock_file.digest(path)}
    (project / "results/planted/logs/zz.log").write_text(f"{machine.MADE}{json.dumps(made)}\n")  # read last
    done = run(project, "ff-memories", "verify", "--only", "files", "recomputed", check=False)
    assert done.returncode == 1
    assert "others were computed here" in done.stdout and "FAIL recomputed   different from the record" in done.stdout
    assert "! models/untrained-1/tables/mutations" in done.stdout


@pytest.mark.more
def test_the_certificate_says_of_every_verdict_what_it_rests_on(recorded_run, tmp_path):
    project = tmp_path / "project"
    shutil.copytree(recorded_run, project, symlinks=True)
    done = run(project, "ff-memories", "verify", "--certificate", "certificate.json", check=False)
    assert done.stdout.splitlines()[-1].startswith("VERIFIED in"), done.stdout
    parts = json.loads((project / "certificate.json").read_text())["parts"]
    assert parts["audit"]["seed_was"] == "drawn"
    found = parts["verdicts"]["verdicts"]
    assert found.keys() == {claim.id for claim in register()}
    assert "rows" in found["K1"]["rests_on"]["mutations"]
    assert "rows of mutations in 4 other models" in found["K1"]["rests_on"]["baselines mutations"]
    assert all(said for rests in found.values() for said in rests["rests_on"].values())
    assert found["K6"]["rests_on"]["annotations"] == "rebuilt to the byte"


@pytest.mark.more
def test_a_forger_turns_a_verdict_and_the_audit_finds_it(recorded_run, monkeypatch):
    monkeypatch.chdir(recorded_run)
    monkeypatch.setitem(forgery.RECORDED, "planted", Path("config/config.yaml"))
    forger = forgery.Forger("planted", seed=1)
    lines = [line for claim in forger.claims() if claim.id in MUTATED and (line := forger.forge(claim))]
    assert lines and all(line[3] == "mutations" and 0 < float(str(line[-1])) <= 1 for line in lines)
