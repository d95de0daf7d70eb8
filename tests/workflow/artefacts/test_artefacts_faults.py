"""What breaks: a cache and locks. What only Snakemake or DVC mends is named with its command."""

import shutil

import pytest
import yaml
from projects import RESULTS, run

pytestmark = pytest.mark.long

TABLE = f"{RESULTS}/tables/values.parquet"


def stored(folder, path, where=".dvc/artefacts/files/md5"):
    """Return the object in which a recorded artefact is stored."""
    recorded = yaml.safe_load((folder / "dvc.lock").read_text())["stages"].values()
    md5 = next(out["md5"] for stage in recorded for out in stage["outs"] if out["path"] == path)
    return folder / where / md5[:2] / md5[2:]


def test_a_lock_edited_by_hand_is_named(copy):
    """What Snakemake made here of the present inputs stays so: adopt mends the lock. What was pulled is due again."""
    md5 = stored(copy, TABLE).parent.name + stored(copy, TABLE).name
    lock = copy / "dvc.lock"
    whole = lock.read_text()
    lock.write_text(whole.replace(md5, md5[::-1]))
    said = run(copy, "ff-memories", "restore").stdout
    assert "not recorded yet" in said
    assert "values" in said
    run(copy, "ff-memories", "adopt")
    assert lock.read_text() == whole
    shutil.rmtree(copy / ".snakemake")
    lock.write_text(whole.replace(md5, md5[::-1]))
    assert "to be rerun: values" in run(copy, "ff-memories", "restore").stdout


def test_a_killed_snakemake_and_a_killed_dvc_are_named_with_the_commands_that_mend_them(copy):
    lock, rwlock = copy / ".snakemake/locks/0.output.lock", copy / ".dvc/tmp/rwlock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text(f"{TABLE}\n")
    assert "run snakemake --unlock" in run(copy, "ff-memories", "restore", check=False).stderr
    run(copy, "snakemake", "--unlock")
    run(copy, "ff-memories", "restore")
    rwlock.write_text('{"write": {"/a": {"pid"')
    assert "run rm .dvc/tmp/rwlock" in run(copy, "ff-memories", "adopt", check=False).stderr
    rwlock.unlink()
    assert "nothing new" in run(copy, "ff-memories", "adopt").stdout
