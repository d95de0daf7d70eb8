"""What the README promises a reviewer, on a machine whose arithmetic is another than that of the record.

``MKL_CBWR`` and ``ATEN_CPU_CAPABILITY`` choose other kernels on the same CPU: other last bits, as another CPU has them.
The run computes with ``arithmetic: fast``, which leaves these variables alone.
"""

import json
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
import yaml
from factories import words
from pipeline import config, write_inputs
from projects import configure, due, files, publish, restored, run

from ff_memories import tables
from ff_memories.audit import compare
from ff_memories.audit.run_files import kind_of
from ff_memories.workflow.dvc_yaml import is_shared

pytestmark = pytest.mark.long

ELSEWHERE = {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default"}
HERE = {"MKL_CBWR": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
MEASURED = ("triggers", "mutations", "values", "examples", "composition", "refinement", "shading", "promoted")
VERIFY = ("ff-memories", "verify", "--seed", "3", "--share", "0.05")
SOURCES = "workflow/sources/dvc.yaml:sources"  # the stage that says what each other stage does
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
    compared = {name for name in theirs if not name.startswith(("logs/", "shards/"))}
    assert {name for name in compared if theirs[name] != ours.get(name) and "snakemake_timestamp" not in name} == set()
    logs = {p.stem for p in (pulled / "results/small").rglob("*.log")}
    assert not logs & {*MEASURED, "control", "trigger_shard"}
    assert not due(pulled)
    assert "up to date" in run(pulled, "dvc", "status").stdout
    done = run(pulled, *VERIFY, **HERE)
    assert done.stdout.splitlines()[-1].startswith(f"{VERIFIED} in ")
    assert "computed here" not in done.stdout


def test_restore_makes_only_what_is_never_recorded_whatever_is_newer(pulled, tmp_path):
    """Every input is newer than what was made of it, and all unshared files are gone."""
    folder = tmp_path / "clone"
    shutil.copytree(pulled, folder, symlinks=True)
    shutil.rmtree(folder / ".snakemake")
    results = folder / "results/small"
    for name in ("gallery", "corpus"):
        shutil.rmtree(results / name)
    for file in [file for file in (results / "report").iterdir() if file.name != "claims.tex"]:  # which is shared
        file.unlink()
    (results / "model" / "model.safetensors").unlink()
    for name in ("triggers", "values", "sentences"):  # inputs of measured tables, as a pull may write them last
        (results / "tables" / f"{name}.parquet").touch()
    recorded = {p: p.stat().st_mtime_ns for p in (results / "tables").iterdir()}
    contents = files(results / "tables")
    shown = run(folder, "ff-memories", "restore", **HERE)
    again = shown.stderr.partition("rebuilding: ")[2].splitlines()[0]
    shown = {stage.partition("-")[0] for stage in again.split(", ")}
    assert shown <= {"model", "corpus", "figures", "report", "gallery", "baselines"}
    assert files(results / "tables") == contents
    assert {p.name for p in recorded} == {p.name for p in (results / "tables").iterdir()}
    assert not due(folder)


def test_a_stage_runs_its_rule_and_that_of_its_shards_whatever_is_newer(pulled, tmp_path):
    folder = tmp_path / "clone"
    shutil.copytree(pulled, folder, symlinks=True)
    shutil.rmtree(folder / ".snakemake")  # nothing but time stamps to go by
    (folder / "results/small/model/info.json").touch()
    (folder / "results/small/tables/sentences.parquet").touch()
    command = yaml.safe_load((folder / "dvc.yaml").read_text())["stages"]["values"]["cmd"].partition("#")[0].split()
    shown = run(folder, command[0], "-n", *command[1:], **HERE)
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
    assert all(claim["verdict_a"] == claim["verdict_b"] for claim in found["claims"])
    strict = run(recomputed, "ff-memories", "compare", "dvc.lock", "results/small", "--strict", check=False)
    assert strict.returncode == 1
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
    assert "equal to" in page and "verdicts are the same" in page
    assert 'data="recomputed.html"' in (recomputed / "results/small/report/report.html").read_text()


def test_a_table_edited_after_it_was_computed_here_is_not_verified(recomputed, tmp_path):
    folder = tmp_path / "clone"
    shutil.copytree(recomputed, folder, symlinks=True)
    path = folder / "results/small/tables/triggers.parquet"
    frame = tables.read(path)
    nudged = frame["coefficient"].to_numpy().copy()
    nudged[5] *= 1 + 1e-6  # well within tolerance
    tables.write(frame.with_columns(pl.Series("coefficient", nudged)), path)
    done = run(folder, *VERIFY, "--only", "files", "recomputed", check=False, **HERE)
    assert done.returncode == 1
    assert "results/small/tables/triggers.parquet: differs from dvc.lock" in done.stdout


def test_recording_here_leaves_both_tools_in_agreement(recomputed, tmp_path):
    folder = tmp_path / "clone"
    shutil.copytree(recomputed, folder, symlinks=True)
    run(folder, "ff-memories", "adopt", **HERE)
    assert "up to date" in run(folder, "dvc", "status").stdout
    configure(folder, "figures.figure4", {"width": 300})
    shown = run(folder, "dvc", "repro", **HERE).stdout
    ran = {line.split("'")[1] for line in shown.splitlines() if line.startswith("Running")}
    assert ran == {"figures", "report", SOURCES}
    assert not due(folder)
    run(folder, "dvc", "push", "--quiet")
    shutil.rmtree(folder / "results")
    run(folder, "dvc", "pull", "--quiet")
    assert (folder / "results/small/tables/triggers.parquet").is_file()


# what is different is named


def shifted(name, column, by, row=7):
    def change(found):
        numbers = found[name][column].to_list()
        numbers[row] = by(numbers[row])
        found[name] = found[name].with_columns(pl.Series(column, numbers, found[name].schema[column], strict=False))

    return change


def without_a_row(found):
    frame = found["triggers"]
    left = frame.filter(~((pl.col("layer") == 1) & (pl.col("key") == frame["key"][0]) & (pl.col("rank") == 2)))
    rank = pl.int_range(1, pl.len() + 1).over("layer", "key").cast(pl.UInt16)
    found["triggers"] = left.with_columns(rank.alias("rank"))


def turned_over(found):
    frame = found["claims"]
    turned = [{"holds": "fails", "fails": "holds"}.get(v, v) for v in frame["verdict"]]
    found["claims"] = frame.with_columns(pl.Series("verdict", turned, frame.schema["verdict"]))


CHANGES = {
    "a coefficient": (shifted("triggers", "coefficient", lambda x: x * 1.001), "triggers, layer"),
    "a row left out": (without_a_row, "triggers, layer"),
    "a change alone": (shifted("mutations", "change", lambda x: x + 0.01), "mutations, layer"),
    "a top": (shifted("values", "top_token", lambda x: 5 if x != 5 else 6), "values, layer"),
    "a rank": (shifted("values", "next_token_rank", lambda x: (x or 0) + 9), "values, layer"),
    "an active count": (shifted("composition", "active", lambda x: x + 40), "composition, example"),
    "a label": (shifted("pattern_labels", "label", lambda x: "none" if x != "none" else "both"), "pattern_labels, "),
    "a verdict": (turned_over, "claims, claim"),
    "a measured value": (shifted("claims", "measured", lambda x: (x or 0) + 1, row=0), "claims, claim"),
    "a count": (shifted("counts", "n", lambda x: x + 10**6, row=0), "counts, step"),
}


@pytest.fixture
def forged(pulled, tmp_path, monkeypatch):
    """A copy of the pulled run's results, to change, beside the project that made them."""
    monkeypatch.chdir(pulled)
    shutil.copytree("results/small", tmp_path / "small", symlinks=True)
    return tmp_path / "small"


def change(folder, name, how):
    """Change a table of a run's folder."""
    found = {name: tables.read(folder / "tables" / f"{name}.parquet")}
    how(found)
    found[name].write_parquet(folder / "tables" / f"{name}.parquet")


@pytest.mark.parametrize("name", CHANGES)
def test_a_real_difference_is_named(forged, name):
    how, says = CHANGES[name]
    table = says.partition(",")[0]
    change(forged, table, how)
    found = compare.compare(Path("results/small"), forged)
    assert found.answer == "different"
    assert any(line.startswith(table) for line in found.different), found.different


def test_near_ties_are_settled_and_what_they_excuse_is_told(recomputed):
    shown = run(recomputed, "ff-memories", "compare", "dvc.lock", "results/small", **HERE).stdout
    assert shown.splitlines()[-1].startswith("equal: ")
    assert "near-ties, by recomputation in float64" in shown and "of a table's rows" in shown


def test_a_forged_entry_at_the_end_of_a_list_is_no_near_tie(forged):
    """Another sentence takes the last place, where a list of the other run cannot tell."""

    def last(found):
        frame = found["triggers"]
        row = int((frame["rank"] == frame["rank"].max()).arg_true()[0])
        moved = pl.when(pl.int_range(pl.len()) == row).then(pl.col("sentence") + 1).otherwise("sentence")
        found["triggers"] = frame.with_columns(moved.cast(pl.UInt32).alias("sentence"))

    change(forged, "triggers", last)
    found = compare.compare(Path("results/small"), forged)
    assert found.answer == "different"
    assert any("coefficient is" in line for line in found.different), found.different


def test_without_the_model_an_open_decision_does_not_pass(pulled, forged, tmp_path, monkeypatch):
    change(forged, "values", shifted("values", "top_token", lambda x: 5 if x != 5 else 6))
    (tmp_path / "elsewhere" / "results").mkdir(parents=True)
    shutil.copytree(pulled / "results/small", tmp_path / "elsewhere/results/small")
    shutil.copytree(pulled / "config", tmp_path / "elsewhere/config")
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = compare.compare(Path("results/small"), forged)
    assert found.answer == "different" and compare.NOT_TOLD in found.different[0]


def test_every_file_that_a_run_records_has_a_rule(record):
    shared = [name for name in files(record / "results/small") if is_shared(f"/{name}")]
    assert len(shared) > 100
    assert [name for name in shared if kind_of(name) is None and "snakemake_timestamp" not in name] == []
