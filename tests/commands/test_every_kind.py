"""Commands do the same for every kind of model: one of fairseq, an ungated and a gated one of `transformers`."""

import shutil

import polars as pl
import pytest

from ff_memories import tables
from ff_memories.cli import main
from ff_memories.workflow.run import DEFAULT, Run

pytestmark = pytest.mark.more

RUNS = {"fairseq": "recorded_run", "ungated": "recorded_ungated_run", "gated": "recorded_transformers_run"}


LONG = [pytest.param(name, marks=pytest.mark.long) for name in RUNS if name != "fairseq"]


@pytest.fixture(scope="module", params=["fairseq", *LONG])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def project(kind, request, tmp_path_factory):
    """A copy of a recorded run's project."""
    folder = tmp_path_factory.mktemp(kind) / "project"
    shutil.copytree(request.getfixturevalue(RUNS[kind]), folder, symlinks=True)
    return folder


@pytest.fixture
def here(project, monkeypatch):
    """The recorded run, as the default run of the working folder. Tests leave it as it is."""
    monkeypatch.chdir(project)
    return Run.read(DEFAULT)


@pytest.fixture
def ended(capsys):
    """Run a command here; return its exit status and what it printed."""

    def ended(*words):
        with pytest.raises(SystemExit) as end:
            main([*map(str, words)])
        said = capsys.readouterr()
        return end.value.code, said.out + said.err

    return ended


def forged(here, folder, name, column, change):
    """Return a copy of the run's results with one column of one table changed."""
    shutil.copytree(here.results, folder, ignore=shutil.ignore_patterns("logs", "shards", "gallery"))
    path = folder / "tables" / f"{name}.parquet"
    tables.write(tables.read(path).with_columns(change(pl.col(column)).alias(column)), path)
    return folder


@pytest.mark.parametrize("text", ["claims: 0000000000000000\n", "claims: [\n"])
def test_verify_names_digests_that_were_edited_by_hand_and_they_are_written_anew(here, ended, text):
    whole = here.sources_yaml.read_text()
    here.sources_yaml.write_text(text)
    status, shown = ended("verify", "--only", "record")
    assert (
        status == 1
        and f"! {here.sources_yaml}: not what the code and the config mean; run ff-memories sources\n" in shown
    )
    assert ended("sources") == (0, "workflow/sources/sources.yaml\n") and here.sources_yaml.read_text() == whole


def test_compare_finds_a_run_identical_to_its_record_and_a_forged_one_different(here, ended, tmp_path):
    status, shown = ended("compare", here.results, "dvc.lock")
    assert (status, shown.splitlines()[-1]) == (0, "identical")
    own = forged(here, tmp_path / here.config.run, "triggers", "coefficient", lambda c: c * 1.01)
    status, shown = ended("compare", here.results, own)
    assert status == 1 and shown.splitlines()[-1] == "different"
    assert "triggers" in shown and "coefficient" in shown


def test_show_prints_the_recorded_triggers_of_a_key(here, ended):
    first = tables.read(here.table("triggers")).row(0, named=True)
    status, shown = ended("show", "--layer", first["layer"], "--key", first["key"], "--top", 3)
    assert status == 0, shown
    assert f"1  {first['coefficient']:8.4f}  " in shown and "promotes" in shown
