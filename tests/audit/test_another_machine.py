"""What the README promises a reviewer, on a machine whose arithmetic is another than that of the record.

``MKL_CBWR`` and ``ATEN_CPU_CAPABILITY`` choose other kernels on the same CPU: other last bits, as another CPU has them.
The run computes with ``arithmetic: fast``, which leaves these variables alone.
"""

import json
import shutil
import subprocess

import pytest
import yaml
from factories import words
from pipeline import config, write_inputs
from projects import due, files, publish, restored, run

from ff_memories import tables
from ff_memories.workflow.jobs import is_intermediate

pytestmark = pytest.mark.long

ELSEWHERE = {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default"}
HERE = {"MKL_CBWR": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
MEASURED = ("triggers", "mutations", "values", "examples", "composition", "refinement", "shading", "promoted")
VERIFY = ("ff-memories", "verify", "--seed", "3", "--share", "0.05")
VERIFIED = "VERIFIED with a smaller sample than usual (59 rows of a table, not 398)"


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """A published project whose run was computed elsewhere."""
    inputs = tmp_path_factory.mktemp("inputs")
    write_inputs(inputs, words(60), decoder_embed_dim=64, decoder_ffn_embed_dim=96, train=400)
    settings = config(execution__arithmetic="fast", mutations__keys_per_layer=40)
    (inputs / "my.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    return publish(inputs, tmp_path_factory.mktemp("record"), "small", **ELSEWHERE)


@pytest.fixture(scope="module")
def pulled(record, tmp_path_factory):
    """A reviewer's clone of it: pulled and restored here."""
    return restored(record, tmp_path_factory.mktemp("pulled") / "clone", **HERE)


@pytest.fixture(scope="module")
def recomputed(record, tmp_path_factory):
    """Another clone, in which the run was computed here, from nothing."""
    folder = tmp_path_factory.mktemp("recomputed") / "clone"
    subprocess.run(["git", "clone", "-q", record, folder], check=True)
    for name in ("model.pt", "dict.txt", "train.txt", "validation.txt"):
        shutil.copy(record / name, folder / name)
    run(folder, "snakemake", "--cores", "2", **HERE)
    return folder


def tables_of(folder):
    return {p.stem: tables.read(p) for p in sorted((folder / "results/small/tables").glob("*.parquet"))}


def test_a_pulled_run_is_up_to_date_and_verified_with_nothing_recorded_written(record, pulled):
    theirs, ours = files(record / "results" / "small"), files(pulled / "results" / "small")
    compared = {n for n in theirs if not n.startswith("logs/") and not is_intermediate(f"results/small/{n}")}
    assert {name for name in compared if theirs[name] != ours.get(name) and "snakemake_timestamp" not in name} == set()
    logs = {p.stem for p in (pulled / "results/small").rglob("*.log") if p.stat().st_size}
    assert not logs & {*MEASURED, "control", "trigger_shard"}
    assert not due(pulled)
    assert "up to date" in run(pulled, "dvc", "status").stdout
    said = run(pulled, *VERIFY, **HERE).stdout
    assert said.splitlines()[-1].startswith(f"{VERIFIED} in ") and "computed here" not in said


def test_a_stage_runs_its_rule_and_that_of_its_shards_whatever_is_newer(pulled, tmp_path):
    folder = tmp_path / "clone"
    shutil.copytree(pulled, folder, symlinks=True)
    shutil.rmtree(folder / ".snakemake")  # nothing but time stamps to go by
    (folder / "results/small/model/info.json").touch()
    (folder / "results/small/tables/sentences.parquet").touch()
    command = yaml.safe_load((folder / "dvc.yaml").read_text())["stages"]["values"]["cmd"].partition("#")[0].split()
    shown = run(folder, command[0], "-n", *command[1:], DVC_STAGE="values", **HERE)
    counted = [line.split() for line in shown.stdout.splitlines() if len(line.split()) == 2]
    jobs = {name for name, n in counted if n.isdecimal() and not name.endswith(":")}  # not "threads: 2"
    assert jobs - {"total"} == {"values", "values_joined"}


def test_a_run_computed_here_has_other_bits_and_is_equal_to_the_record(record, recomputed):
    old, new = tables_of(record), tables_of(recomputed)
    assert not old["triggers"].equals(new["triggers"])
    shown = run(recomputed, "ff-memories", "compare", "dvc.lock", "results/small", "--json", **HERE)
    found = json.loads(shown.stdout)
    assert found["answer"] == "equal"
    assert found["tables"]["triggers"]["cells"]["coefficient"] > 0
    strict = ("ff-memories", "compare", "dvc.lock", "results/small", "--strict")
    assert run(recomputed, *strict, check=False).returncode == 1
    shutil.copytree(recomputed / "results/small", recomputed.parent / "copy" / "small")
    same = run(recomputed, "ff-memories", "compare", "results/small", recomputed.parent / "copy" / "small")
    assert same.stdout.splitlines()[-1] == "identical"


def test_a_run_computed_here_is_verified_as_such(recomputed):
    before = files(recomputed / "results/small/tables")
    done = run(recomputed, *VERIFY, **HERE)
    assert done.stdout.splitlines()[-1].startswith(f"{VERIFIED}, recomputed: equal to the record; ")
    assert "coefficients differ in their last bits" in done.stdout
    assert "recorded on processor" in done.stdout and "computed here on processor" in done.stdout
    assert "arithmetic fast" in done.stdout
    assert files(recomputed / "results/small/tables") == before
    page = (recomputed / "results/small/report/recomputed.html").read_text()
    assert "equal to" in page and "coefficients differ in their last bits" in page
    assert 'data="recomputed.html"' in (recomputed / "results/small/report/report.html").read_text()
