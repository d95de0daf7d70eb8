"""A recorded run as an RO-Crate, and the times and machines that are kept beside its record."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from contrib.ro_crate import crate
from ff_memories.base.errors import UserError
from ff_memories.workflow import dvc_lock_file, records
from ff_memories.workflow.run import DEFAULT, Run

pytestmark = pytest.mark.more

FIGURE = "results/planted/figures/figure4.svg"


@pytest.fixture
def here(recorded_run, tmp_path, monkeypatch):
    """A copy of a recorded run, to change, as the working folder."""
    shutil.copytree(recorded_run, tmp_path / "here", ignore=shutil.ignore_patterns("cache", "tmp"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_times_and_machines_are_kept_for_a_clone_that_has_no_logs(here):
    run = Run.read(DEFAULT)
    known = records.machines(run)
    assert known["trigger_shard"]["jobs"] == 2 and known["trigger_shard"]["seconds"] > 0
    assert all("processor " in row["machine"] and ", cores " in row["machine"] for row in known.values())
    shutil.rmtree("results/planted/logs")
    records.keep_machines(run)
    assert records.machines(run) == known
    records.machines_of(run).write_text("{")
    with pytest.raises(UserError, match=r"machines\.json: not readable as JSON"):
        records.machines(run)


def test_a_crate_holds_what_may_be_shared_and_describes_the_rest(here):
    crate.main(["--out", "run.zip"])
    with zipfile.ZipFile("run.zip") as file:
        names = set(file.namelist())
        graph = {e["@id"]: e for e in json.loads(file.read("ro-crate-metadata.json"))["@graph"]}
        assert file.read(FIGURE) == Path(FIGURE).read_bytes()
    assert {"workflow/Snakefile", "dvc.lock", "results/planted/tables/triggers.parquet"} <= names
    private = {name for name in names if re.search(r"/report/|/corpus/|\.txt$|\.pt$", name)}
    assert private <= {"workflow/envs/constraints.txt"}  # which shows no text
    page = "results/planted/report/report.html"
    assert graph[f"#{page}"]["md5"] == dvc_lock_file.digest(page)
    run = graph["#run/values"]
    assert run["instrument"] == {"@id": "#tool/values"}
    assert {"@id": "results/planted/tables/triggers.parquet"} in run["object"]
    assert run["result"] == {"@id": "results/planted/tables/values.parquet"}
    models = {"@id": "results/planted/models/untrained-1/tables/values.parquet"}
    assert models in graph["#run/baselines"]["object"] and "trigger_shard took " in graph["#run"]["description"]
    assert "surrogate" in graph["./"]["description"]


def test_a_crate_is_refused_where_a_file_is_not_as_recorded_and_nothing_is_left(here):
    Path(FIGURE).write_text("another")
    with pytest.raises(UserError, match=f"{FIGURE}: differs from dvc.lock"):
        crate.main(["--out", "run.zip"])
    assert not list(Path.cwd().glob("run.zip*"))


# The validator asks the web for RO-Crate's vocabulary; this gives it the one that rocrate brings along.
VALIDATE = """
import email.message, io, pathlib, sys, urllib.request, urllib.response, rocrate
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
    crate.build(Run.read(DEFAULT), {"scope": "surrogate"}).write(tmp_path / "crate")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "roc-validator==0.13.0", "rocrate==0.16.0"], check=True)
    check = lambda: subprocess.run([python, "-c", VALIDATE, tmp_path / "crate"], capture_output=True, text=True)
    assert not (done := check()).returncode, done.stderr[-3000:]
    metadata = tmp_path / "crate" / "ro-crate-metadata.json"
    metadata.write_text(metadata.read_text().replace('"instrument"', '"tool"'))
    assert check().returncode != 0  # it does look
