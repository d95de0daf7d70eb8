"""Where an artefact comes from: down to the raw inputs, with digests, code, environment, cost and machine."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from ff_memories.workflow.recorded import crate, provenance, tree
from running import command

from ff_memories.base.errors import UserError
from ff_memories.cli import main
from ff_memories.figures.registry import DRAWN
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.runs.run import DEFAULT, Run

pytestmark = pytest.mark.more

FIGURE = "results/planted/figures/figure4.svg"


@pytest.fixture
def here(recorded_run, tmp_path, monkeypatch):
    """A copy of a recorded run, to change, as the working folder."""
    shutil.copytree(recorded_run, tmp_path / "here", ignore=shutil.ignore_patterns("cache", "tmp"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_a_stage_has_all_that_its_outputs_follow_from(here):
    stages = provenance.read(Run.read(DEFAULT))
    figure = stages["figure-figure4"]
    assert figure.rule == "figure"
    assert figure.jobs[0].command.startswith("ff-memories step figure --figure figure4 ")
    drawn = {f"results/planted/tables/{table}.parquet" for table in DRAWN["figure4"].tables}
    beside = {
        path for path in figure.inputs if path.startswith("results/planted/baselines/")
    }  # untrained models' values
    assert {Path(path).parent.name for path in beside} == set(Run.read(DEFAULT).config.baselines.names)
    assert figure.inputs.keys() == drawn | beside | {"results/planted/model/info.json"}
    assert all(md5 == dvc_lock_file.digest(path) for path, md5 in {**figure.inputs, **figure.outputs}.items())
    assert figure.code == yaml.safe_load(Path("sources.yaml").read_text())["figure-figure4"]
    assert figure.environment == constraints.digest()
    assert figure.jobs[0].seconds > 0
    assert figure.jobs[0].ended.endswith("+00:00")
    assert "processor " in figure.jobs[0].machine and ", cores " in figure.jobs[0].machine
    assert len(stages["triggers"].jobs) == 3  # two shards and their merging
    assert stages["mutations"].params["seed"] == 3


def test_why_ends_at_the_raw_inputs(here, capsys):
    with pytest.raises(SystemExit) as end:
        main(["why", FIGURE])
    shown = capsys.readouterr().out
    assert end.value.code == 0
    assert shown.startswith(f"{FIGURE}  {dvc_lock_file.digest(FIGURE)[: tree.SHORT]}\n")
    for name in ("model.pt", "dict.txt", "train.txt"):
        assert f"─ {name}  {dvc_lock_file.digest(name)[: tree.SHORT]}" in shown
    for word in (
        "rule values",
        "$ ff-memories step trigger-shard",
        "config keys",
        "code ",
        "took ",
        "on processor",
    ):
        assert word in shown
    assert "validation.txt" in shown  # the corpus holds both


def test_why_says_what_is_not_as_recorded_and_what_is_not_here(here, capsys):
    Path(FIGURE).write_text("another")
    Path("train.txt").unlink()
    shown = "\n".join(tree.tree(provenance.read(Run.read(DEFAULT)), FIGURE, brief=True))
    assert "(DIFFERS from the record)" in shown.splitlines()[0]
    assert "train.txt" in next(line for line in shown.splitlines() if "(missing)" in line)
    assert "took" not in shown


def test_a_file_of_no_run_is_refused_with_what_was_meant(here):
    with pytest.raises(UserError, match=r"did you mean results/planted/figures/figure4\.svg"):
        list(tree.tree(provenance.read(Run.read(DEFAULT)), "results/planted/figure4.svg"))


def test_times_and_machines_are_kept_for_a_clone_that_has_no_logs(here):
    assert provenance.keep(Run.read(DEFAULT)) == Path("provenance.json")
    before = provenance.read(Run.read(DEFAULT))
    shutil.rmtree("results/planted/logs")
    assert provenance.read(Run.read(DEFAULT)) == before
    first = Path("provenance.json").read_bytes()
    provenance.keep(Run.read(DEFAULT))
    assert Path("provenance.json").read_bytes() == first


def test_kept_times_are_not_those_of_other_outputs(here):
    provenance.keep(Run.read(DEFAULT))
    shutil.rmtree("results/planted/logs")
    kept = json.loads(Path("provenance.json").read_text())
    kept["stages"]["values"]["outputs"]["results/planted/tables/values.parquet"] = "0" * 32
    Path("provenance.json").write_text(json.dumps(kept))
    assert provenance.read(Run.read(DEFAULT))["values"].jobs[0].seconds is None
    assert "time and machine unknown" in "\n".join(tree.tree(provenance.read(Run.read(DEFAULT)), FIGURE))


def test_a_crate_holds_what_may_be_shared_and_describes_the_rest(here):
    with pytest.raises(SystemExit) as end:
        main(["crate", "--out", "run.zip"])
    assert end.value.code == 0
    with zipfile.ZipFile("run.zip") as file:
        names = set(file.namelist())
        graph = {e["@id"]: e for e in json.loads(file.read("ro-crate-metadata.json"))["@graph"]}
        assert file.read(FIGURE) == Path(FIGURE).read_bytes()
    assert {"Snakefile", "dvc.lock", "results/planted/tables/triggers.parquet"} <= names
    assert not {
        name for name in names if "/report/" in name or "/corpus/" in name or name.endswith((".txt", ".pt"))
    } - {"constraints.txt", "results/planted/report/claims.tex"}  # which shows no text
    assert graph["#results/planted/report/report.html"]["md5"] == dvc_lock_file.digest(
        "results/planted/report/report.html"
    )
    run = graph["#run/values"]
    assert run["instrument"] == {"@id": "#tool/values"}
    assert {"@id": "results/planted/tables/triggers.parquet"} in run["object"]
    assert run["result"] == {"@id": "results/planted/tables/values.parquet"}
    assert run["endTime"] >= run["startTime"]
    assert "surrogate" in graph["./"]["description"]


def test_a_crate_is_refused_where_a_file_is_not_as_recorded_and_nothing_is_left(here, capsys):
    Path(FIGURE).write_text("another")
    with pytest.raises(SystemExit) as end:
        main(["crate", "--out", "run.zip"])
    assert end.value.code == 2
    assert f"{FIGURE}: differs from dvc.lock" in capsys.readouterr().err
    assert not list(Path.cwd().glob("run.zip*"))


# The validator asks the web for RO-Crate's vocabulary; this gives it the one that rocrate brings along.
VALIDATE = """
import email.message, io, pathlib, sys, urllib.request, urllib.response
import rocrate
from rocrate_validator import models, services
words = (pathlib.Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_bytes()
words = words.replace(b"https://bioschemas.org/terms/", b"https://bioschemas.org/")  # as in 1.1
def answer(self, request, *rest, **more):
    head = email.message.Message()
    head["Content-Type"] = "application/ld+json"
    return urllib.response.addinfourl(io.BytesIO(words), head, str(request), 200)
urllib.request.OpenerDirector.open = answer
settings = services.ValidationSettings(
    rocrate_uri=models.URI(sys.argv[1]), profile_identifier="provenance-run-crate",
    requirement_severity=models.Severity.REQUIRED,
    skip_checks=["ro-crate-1.1_3.1", "ro-crate-1.1_3.2"],  # that the vocabulary can be fetched
)
found = services.validate(settings)
sys.exit("\\n".join(f"{i.check.identifier} {i.message}" for i in found.get_issues()) or 0)
"""


@pytest.mark.long
def test_a_crate_is_a_valid_provenance_run_crate(here, tmp_path):
    crate.build(provenance.read(Run.read(DEFAULT)), Run.read(DEFAULT), {"scope": "surrogate"}).write(tmp_path / "crate")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "roc-validator==0.13.0", "rocrate==0.16.0"]
    subprocess.run(install, check=True)
    check = lambda: subprocess.run([python, "-c", VALIDATE, tmp_path / "crate"], capture_output=True, text=True)
    done = check()
    assert done.returncode == 0, done.stderr[-3000:]
    metadata = tmp_path / "crate" / "ro-crate-metadata.json"
    metadata.write_text(metadata.read_text().replace('"instrument"', '"tool"'))
    assert check().returncode != 0  # it does look


@pytest.mark.long
def test_a_steps_log_begins_with_its_machine(here):
    command("snakemake", "--cores", "1", "--forcerun", "table", "--allowed-rules", "table", "--",
            "results/planted/report/table1.csv", cwd=here)  # fmt: skip
    assert (here / "results/planted/logs/table1.log").read_text().startswith("machine: [[")
