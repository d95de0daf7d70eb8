"""A reviewer's check of a recorded run: what is sound passes, and whatever was changed is named."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import polars as pl
import psutil
import pytest
import yaml
from pipeline import step
from refusing import ended, says
from running import BIN

from ff_memories import tables
from ff_memories.audit.sampling import Aim
from ff_memories.audit.verify import verify
from ff_memories.workflow import dvc_lock_file, rebuild, records
from ff_memories.workflow.run import DEFAULT, Run

pytestmark = pytest.mark.more

CHEAP = ["record", "files", "audit"]  # all but making everything again


@pytest.fixture
def here(recorded_run, tmp_path, monkeypatch):
    """A copy of it, to change, as the working folder."""
    shutil.copytree(recorded_run, tmp_path / "here", ignore=shutil.ignore_patterns("cache", "tmp"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


AIM = Aim(0.95, 0.05, seed=1)


def check(*parts):
    said = []
    return {part.name: part for part in verify(Run.read(DEFAULT), AIM, 2, list(parts), said.append)}


def sign_again(path):
    """Record a file as it is now, as a forger would who edits dvc.lock too."""
    recorded = yaml.safe_load(Path("dvc.lock").read_text())
    for stage in recorded["stages"].values():
        for entry in [*stage.get("deps", []), *stage.get("outs", [])]:
            if entry["path"] == path:
                entry["md5"] = dvc_lock_file.digest(path)
    Path("dvc.lock").write_text(yaml.safe_dump(recorded))


def table(name):
    return f"results/planted/tables/{name}.parquet"


def change_row(name, column, new, row=0):
    """Change one number of a table."""
    frame = tables.read(table(name))
    numbers = frame[column].to_list()
    numbers[row] = new(numbers[row])
    tables.write(frame.with_columns(pl.Series(column, numbers, frame.schema[column])), table(name))


def test_a_sound_run_is_verified_and_said_to_be_on_one_page(here, capsys):
    step("verify", "--only", *CHEAP, "--seed", 5, "--share", 0.05, "--certificate", "made/certificate.json")
    first, *_, last = (shown := capsys.readouterr().out).splitlines()
    assert "surrogate" in first and last.startswith("NO FAULT FOUND in ") and "not checked: rebuilt, verdicts" in last
    made = json.loads((here / "made/certificate.json").read_text())
    assert made["verdict"] == "not verified" and made["faultless"]
    assert made["not_checked"] == ["not checked: rebuilt, verdicts"]
    assert made["dvc_lock_sha256"] == dvc_lock_file.digest("dvc.lock", "sha256")
    audited = made["parts"]["audit"]
    assert (audited["seed"], audited["seed_was"]) == (5, "given")
    triggers = audited["tables"]["triggers"]
    assert (triggers["recomputed"], triggers["differ"]) == (59, []) and triggers["statement"] in shown


def test_a_changed_row_is_found_by_its_tables_name_and_if_signed_again_by_its_own(here):
    drawn = AIM.draw("own triggers", len(tables.read(table("triggers"))))
    change_row("triggers", "coefficient", lambda x: x * 0.999, drawn[7])
    assert check("files")["files"].faults == [f"{table('triggers')}: differs from dvc.lock"]
    sign_again(table("triggers"))
    found = check("files", "audit")
    assert found["files"].faults == []
    layer, key, rank = tables.read(table("triggers")).select("layer", "key", "rank").row(drawn[7])
    assert any(
        f.startswith(f"triggers, layer {layer} key {key} rank {rank}: coefficient") for f in found["audit"].faults
    )


def test_a_changed_figure_is_found_and_if_signed_again_by_making_it_again(here, tmp_path):
    figure = "results/planted/figures/figure4.svg"
    (here / figure).write_text((here / figure).read_text() + "<!-- nicer -->\n")
    assert check("files")["files"].faults == [f"{figure}: differs from dvc.lock"]
    todo = [task for task in rebuild.tasks(Run.read(DEFAULT))[0] if figure in task.makes]
    (tmp_path / "again").mkdir()
    rebuild.make(tmp_path / "again", todo, Run.read(DEFAULT), cores=2)
    _, differ = rebuild.compare(tmp_path / "again", todo, Run.read(DEFAULT))
    assert differ == []  # the record is right, the copy is not
    sign_again(figure)
    assert dvc_lock_file.differing(Run.read(DEFAULT)) == {}
    same, differ = rebuild.compare(tmp_path / "again", todo, Run.read(DEFAULT))
    assert differ == [f"{figure}: the rebuilt file differs from dvc.lock"]
    assert len(same) == len(todo[0].makes) - 1


def test_a_stage_that_other_code_ran_is_found_by_name(here):
    recorded = yaml.safe_load(Path("workflow/sources/sources.yaml").read_text(encoding="utf-8"))
    record = (here / "dvc.lock").read_text(encoding="utf-8")
    (here / "dvc.lock").write_text(record.replace(f"claims: {recorded['claims']}", "claims: 0123456789abcdef"))
    (found,) = records.faults(Run.read(DEFAULT))
    assert found == "dvc.lock: claims was run by other code, or with other values of the config"


def test_a_changed_model_signed_again_is_found_by_what_was_measured_with_it(here):
    import torch

    content = torch.load(here / "model.pt", weights_only=False)
    content["model"]["decoder.layers.0.fc2.weight"] *= 2
    torch.save(content, here / "model.pt")
    sign_again("model.pt")
    found = check("record", "audit")
    assert found["record"].faults == []
    assert {fault.partition(",")[0] for fault in found["audit"].faults} >= {"triggers", "values"}


def read(stages, name):
    """Return what the stage ``values`` is said to have read as a file of this name."""
    return next(dep for dep in stages["values"]["deps"] if dep["path"].endswith(name))


LOCK = {
    "an output's hash": (lambda s: s["values"]["outs"][0].update(md5="0" * 32), "values.parquet than values wrote"),
    "an input's hash": (lambda s: read(s, "triggers.parquet").update(md5="0" * 32), "values read a different"),
    "an input left out": (lambda s: s["values"]["deps"].pop(), "values lacks its input"),
    "a parameter": (lambda s: s["triggers"]["params"]["config/config.yaml"].update(triggers={}), "different triggers"),
    "a command": (lambda s: s["report"].update(cmd="true"), "report was run with a different command"),
    "a stage left out": (lambda s: s.pop("figures"), "figures was never recorded"),
    "a stage too many": (lambda s: s.update(extra={"cmd": "true"}), "dvc.yaml has no stage extra"),
}


@pytest.mark.parametrize("what", LOCK)
def test_an_edited_lock_contradicts_itself_and_the_files(here, what):
    edit, said = LOCK[what]
    content = yaml.safe_load((here / "dvc.lock").read_text())
    edit(content["stages"])
    (here / "dvc.lock").write_text(yaml.safe_dump(content))
    assert any(fault.startswith("dvc.lock: ") and said in fault for fault in records.faults(Run.read(DEFAULT)))
    assert list(dvc_lock_file.differing(Run.read(DEFAULT))) == ([table("values")] if what == "an output's hash" else [])


def test_what_is_not_here_is_no_fault_if_it_can_be_made_again(here):
    shutil.rmtree(here / "results/planted/report")
    (here / "results/planted/corpus/corpus.safetensors").unlink()
    found = check("files")["files"]
    assert found.faults == []
    assert "results/planted/report/table1.html" in found.data["absent"]
    (here / table("values")).unlink()
    said = f"{table('values')}: missing; run dvc pull to get it, or snakemake -- {table('values')} to make it"
    assert said in check("files")["files"].faults


def test_without_the_corpus_the_audit_cannot_be_made_and_says_so(here):
    (here / "results/planted/corpus/corpus.safetensors").unlink()
    found = check("audit")["audit"]
    assert "the part rebuilt makes the text" in found.line and "corpus.safetensors" in found.faults[0]


def test_digests_that_were_edited_by_hand_are_named_and_written_anew(here, capsys):
    run = Run.read(DEFAULT)
    whole = run.sources_yaml.read_text()
    for text in ("claims: 0000000000000000\n", "claims: [\n"):
        run.sources_yaml.write_text(text)
        assert ended("verify", "--only", "record") == 1
        named = f"! {run.sources_yaml}: not what the code and the config mean; run ff-memories sources\n"
        assert named in capsys.readouterr().out
        assert ended("sources") == 0 and run.sources_yaml.read_text() == whole


def test_compare_calls_a_run_identical_to_its_record_and_a_forged_one_different(here, capsys, tmp_path):
    run = Run.read(DEFAULT)
    assert ended("compare", run.results, "dvc.lock") == 0 and capsys.readouterr().out.splitlines()[-1] == "identical"
    own = shutil.copytree(run.results, tmp_path / run.config.run, ignore=shutil.ignore_patterns("logs", "gallery"))
    path = own / "tables/triggers.parquet"
    tables.write(tables.read(path).with_columns(pl.col("coefficient") * 1.01), path)
    assert ended("compare", run.results, own) == 1
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == "different" and "triggers" in shown and "coefficient" in shown


def test_bad_usage_ends_with_status_2(here, capsys):
    bad = {"--share 2": "between 0 and 1", "--only hashes": "no such part", "--only verdicts": "rest on what the parts"}
    assert all(said in says(capsys, "verify", *words.split()) for words, said in bad.items())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGXCPU, signal.SIGKILL])
def test_a_check_that_is_killed_leaves_nothing_running(here, how):
    temporary = here.parent / "temporary"
    temporary.mkdir()
    check = subprocess.Popen(
        [BIN / "ff-memories", "verify", "--only", "record", "rebuilt"],
        env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    left = []
    while check.poll() is None and len(left) < 3:  # what holds Snakemake, Snakemake, a job of it
        time.sleep(0.1)
        left = psutil.Process(check.pid).children(recursive=True)
    for _ in range(3):  # `timeout` signals the command and its group
        check.send_signal(how)
        time.sleep(0.05)
    _, errors = check.communicate()
    assert check.returncode == (-9 if how == signal.SIGKILL else 128 + how)
    assert len(left) >= 3 and "leaked" not in errors
    running = psutil.wait_procs(left, timeout=10)[1]
    for process in running:  # nobody tells a Snakemake whose command was killed
        process.kill()
    assert how == signal.SIGKILL or running == []
    assert how == signal.SIGKILL or list(temporary.iterdir()) == []
