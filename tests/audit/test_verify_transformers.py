"""A reviewer's check of a recorded run whose model is one of `transformers`."""

import json
import shutil

import pytest
from projects import run

from ff_memories.audit.recompute.audit import LEFT_OUT
from ff_memories.audit.recompute.baselines import LABELS
from ff_memories.audit.recompute.baselines import ROWS as SAMPLED
from ff_memories.audit.recompute.checks import ROWS
from ff_memories.workflow.runs.run import DEFAULT, Run

pytestmark = pytest.mark.long

OF_BASELINES = (*SAMPLED, *LABELS)


@pytest.fixture
def here(recorded_transformers_run, tmp_path, monkeypatch):
    """A copy of it, to change, as the working folder."""
    shutil.copytree(recorded_transformers_run, tmp_path / "here", ignore=shutil.ignore_patterns("cache", "tmp"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_a_sound_run_is_verified(here):
    done = run(here, "ff-memories", "verify", "--seed", "5", "--share", "0.05", "--certificate", "certificate.json")
    shown = done.stdout.splitlines()
    assert "a model of transformers" in shown[0]
    assert (
        shown[-1].startswith("VERIFIED with a smaller sample than usual (59 rows of a table, not 398) in ")
        and "not checked" not in shown[-1]
    )
    made = json.loads((here / "certificate.json").read_text())
    assert made["verdict"].startswith("verified with a smaller sample") and made["model"] == "model"
    assert "results/small/model/types.json" in made["parts"]["rebuilt"]["same"]
    assert "recomputed with transformers in float64" in made["parts"]["audit"]["summary"]
    found = made["parts"]["audit"]["tables"]
    others = {f"{model} {name}" for model in Run.read(DEFAULT).config.baselines.names for name in OF_BASELINES}
    assert set(found) == {*ROWS, LEFT_OUT, *others} and not any(said["differ"] for said in found.values())
