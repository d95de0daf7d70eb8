"""A reviewer's check of a recorded run whose model is one of `transformers`."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
import yaml
from projects import run

from ff_memories import tables
from ff_memories.audit.recompute.audit import LEFT_OUT
from ff_memories.audit.recompute.baselines import LABELS, PERPLEXITY
from ff_memories.audit.recompute.baselines import ROWS as SAMPLED
from ff_memories.audit.recompute.rows import ROWS
from ff_memories.audit.recompute.sampling import Aim
from ff_memories.audit.verify import verified, verify
from ff_memories.workflow import dvc_lock_file, record_check
from ff_memories.workflow.runs.run import DEFAULT, Run

pytestmark = pytest.mark.long

OF_BASELINES = (*SAMPLED, *LABELS, PERPLEXITY)
ALL = Aim(0.95, 0.0005, seed=1)  # more rows than most of these tables have


@pytest.fixture
def here(recorded_transformers_run, tmp_path, monkeypatch):
    """A copy of it, to change, as the working folder."""
    shutil.copytree(recorded_transformers_run, tmp_path / "here", ignore=shutil.ignore_patterns("cache", "tmp"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def check(aim, *parts):
    return {part.name: part for part in verify(Run.read(DEFAULT), aim, 2, list(parts), lambda part: None)}


def sign_again(path):
    """Record a file as it is now, as a forger would who edits dvc.lock too."""
    recorded = yaml.safe_load(Path("dvc.lock").read_text())
    for stage in recorded["stages"].values():
        for entry in [*stage.get("deps", []), *stage.get("outs", [])]:
            if entry["path"] == path:
                entry["md5"] = dvc_lock_file.digest(path)
    Path("dvc.lock").write_text(yaml.safe_dump(recorded))


def table(name):
    return f"results/small/tables/{name}.parquet"


def change_row(name, changes, row):
    """Change a row of a table and sign the table again; return the row's place in words."""
    frame = tables.read(table(name))
    rows = frame.to_dicts()
    rows[row] |= changes(rows[row])
    changed = pl.DataFrame(rows, schema=frame.schema).sort(tables.TABLES[name].key)
    tables.write(changed, table(name))
    sign_again(table(name))
    return f"{name}, " + " ".join(f"{column} {rows[row][column]}" for column in tables.TABLES[name].key)


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


@pytest.mark.parametrize("file", ["model/model.safetensors", "model/config.json", "model/tokenizer.json", "train.txt"])
def test_a_changed_input_is_found_by_name(here, file):
    with (here / file).open("ab") as end:
        end.write(b"\n")
    assert [fault.partition(":")[0] for fault in record_check.faults(Run.read(DEFAULT))] == [file]


FAULTS = {
    "triggers": lambda r: {"coefficient": r["coefficient"] * 1.0005},
    "mutations": lambda r: {"mutated": -r["mutated"]},
    "values": lambda r: {"top_token": (r["top_token"] + 1) % 256},
    "promoted": lambda r: {"token": (r["token"] + 1) % 256},
    "shading": lambda r: {"coefficient": -r["coefficient"]},
    "examples": lambda r: {"model_top": (r["model_top"] + 1) % 256},
    "composition": lambda r: {"agreeing_memories": r["agreeing_memories"] + 1},
    "refinement": lambda r: {"kind": "ffn" if r["kind"] != "ffn" else "residual"},
}


def test_a_fault_in_each_table_is_found_though_it_was_signed_again(here):
    places = {}
    for name, changes in FAULTS.items():
        drawn = ALL.draw(name, len(tables.read(table(name))))
        places[name] = change_row(name, changes, int(drawn[7]))
    found = check(ALL, "files", "audit")
    assert found["files"].faults == [] and not verified(list(found.values()))
    for name, place in places.items():
        assert any(fault.startswith(f"{place}: ") for fault in found["audit"].faults), name
