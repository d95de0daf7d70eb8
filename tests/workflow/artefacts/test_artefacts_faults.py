"""What breaks: objects, transfers, disks, caches and locks; each for real."""

import os
import shutil
import signal
import subprocess
import time

import pytest
import yaml
from projects import RESULTS, due, git, run
from running import BIN

from ff_memories.workflow import dvc_lock_file, dvc_yaml

pytestmark = pytest.mark.long

TABLE = f"{RESULTS}/tables/values.parquet"


def stored(folder, path, where="artefacts/files/md5"):
    """Return the object in which a recorded artefact is stored."""
    recorded = yaml.safe_load((folder / "dvc.lock").read_text())["stages"].values()
    md5 = next(out["md5"] for stage in recorded for out in stage["outs"] if out["path"] == path)
    return folder / where / md5[:2] / md5[2:]


def spoil(path, how):
    os.chmod(path, 0o644)
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(content[: len(content) // 2] if how == "truncated" else b"x" + content[1:])


def assert_whole(folder):
    """Check all that is pushed against the lock, by DVC's hash of its bytes."""
    recorded = yaml.safe_load((folder / "dvc.lock").read_text())["stages"].values()
    outs = {out["path"]: out["md5"] for stage in recorded for out in stage["outs"]}
    pulled = [path for path in outs if dvc_yaml.is_kept(path)]
    assert len(pulled) > 50
    for path in pulled:
        assert dvc_lock_file.content(folder / path) == outs[path], path


@pytest.fixture
def project(published, tmp_path):
    """A clone whose own remote may be spoilt, with nothing pulled."""
    folder = tmp_path / "project"
    subprocess.run(["git", "clone", "-q", published, folder], check=True)
    return folder


@pytest.mark.parametrize("how", ["corrupted", "truncated", "missing"])
def test_a_bad_object_in_the_remote_is_refused_by_name(project, how):
    spoil(stored(project, TABLE), how)
    failed = run(project, "dvc", "pull", check=False)
    assert failed.returncode
    assert TABLE in failed.stderr
    assert not (project / TABLE).exists()
    assert (project / RESULTS / "tables" / "triggers.parquet").exists()


def test_a_bad_object_in_the_cache_is_found_by_restore(copy):
    spoil(stored(copy, TABLE, ".dvc/cache/files/md5"), "corrupted")
    (copy / TABLE).unlink()
    run(copy, "dvc", "checkout", check=False)
    assert "to be rerun: values" in run(copy, "ff-memories", "restore").stdout
    assert due(copy)


@pytest.mark.parametrize("verb", ["pull", "push"])
def test_a_killed_transfer_is_completed_by_the_next(project, tmp_path, verb):
    if verb == "push":
        run(project, "dvc", "pull", "--quiet")
        run(project, "dvc", "remote", "add", "--local", "other", tmp_path / "other")
    arguments = [BIN / "dvc", verb, "--jobs", "1", *(["--remote", "other"] if verb == "push" else [])]
    place = tmp_path / "other" if verb == "push" else project / ".dvc" / "cache" / "files"
    killed = subprocess.Popen(arguments, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while killed.poll() is None and not any(p.is_file() for p in place.rglob("*")):
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    run(project, *["dvc", verb], *(["--remote", "other"] if verb == "push" else []))
    if verb == "push":
        shutil.rmtree(project / ".dvc" / "cache")
        shutil.rmtree(project / RESULTS)
        run(project, "dvc", "pull", "--remote", "other")
    assert_whole(project)


def test_of_two_pulls_at_once_one_succeeds_and_the_other_says_why_not(project):
    both = [
        subprocess.Popen([BIN / "dvc", "pull"], cwd=project, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [process.communicate()[1] for process in both]
    ends = sorted(process.returncode != 0 for process in both)
    assert ends in ([False, True], [False, False])  # the second may have come late enough
    assert all("lock" in text for text, process in zip(said, both, strict=True) if process.returncode)
    run(project, "dvc", "pull")
    assert (project / TABLE).exists()


def test_a_full_disk_leaves_nothing_that_passes_for_an_artefact(project, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small]).returncode:
        pytest.skip("needs root, to mount a small file system")
    try:
        run(project, "dvc", "cache", "dir", "--local", small)
        failed = run(project, "dvc", "pull", check=False)
        assert failed.returncode
        assert "No space left on device" in failed.stderr
    finally:
        subprocess.run(["umount", small], check=True)
    run(project, "dvc", "cache", "dir", "--local", "--unset")
    run(project, "dvc", "pull")
    assert_whole(project)


def test_a_read_only_cache_fails_and_leaves_the_lock_alone(project, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", cache]
    if os.geteuid() or subprocess.run(mount).returncode:
        pytest.skip("needs root, to mount a read-only file system")
    try:
        before = (project / "dvc.lock").read_bytes()
        run(project, "dvc", "cache", "dir", "--local", cache)
        failed = run(project, "dvc", "pull", check=False)
        assert failed.returncode
        assert "Read-only file system" in failed.stderr
        assert (project / "dvc.lock").read_bytes() == before
    finally:
        subprocess.run(["umount", cache], check=True)


def test_a_cache_on_another_file_system_serves_like_one_beside(project, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "tmpfs", cache]).returncode:
        pytest.skip("needs root, to mount a file system")
    try:
        run(project, "dvc", "cache", "dir", "--local", cache)
        run(project, "dvc", "pull")
        assert os.stat(stored(project, TABLE, cache / "files/md5")).st_dev != os.stat(project / TABLE).st_dev
        run(project, "ff-memories", "restore")
        assert_whole(project)
        assert not due(project)
        before = (project / "dvc.lock").read_bytes()
        (project / TABLE).unlink()
        run(project, "dvc", "repro")
        assert_whole(project)
        run(project, "ff-memories", "adopt")
        assert (project / "dvc.lock").read_bytes() == before
    finally:
        subprocess.run(["umount", cache], check=True)


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


# where a dvc.lock is cut: before a byte of its content
CUTS = {"empty": b"schema:", "in a digest": b" md5", "in a key": b"nfiles"}


@pytest.mark.parametrize("where", CUTS)
@pytest.mark.parametrize("verb", ["adopt", "restore"])
def test_a_lock_that_dvc_was_killed_over_is_named_with_the_command_that_mends_it(copy, where, verb):
    """DVC writes it in place, so a kill leaves a part of it."""
    whole = (copy / "dvc.lock").read_bytes()
    (copy / "dvc.lock").write_bytes(whole[: whole.index(CUTS[where])])
    refused = run(copy, "ff-memories", verb, check=False)
    assert refused.returncode == 2 and refused.stderr.splitlines()[1] == "  fix: run git checkout dvc.lock"
    git(copy, "checkout", "dvc.lock")
    assert "nothing new" in run(copy, "ff-memories", "adopt").stdout


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


def test_dvc_beside_a_running_snakemake_is_refused_and_removes_nothing(copy):
    locks = copy / ".snakemake" / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    for kind in ("input", "output"):  # as a Snakemake at work leaves them
        (locks / f"0.{kind}.lock").write_text(TABLE + "\n")
    before = (copy / TABLE).read_bytes()
    failed = run(copy, "dvc", "repro", "--single-item", "--force", "values", check=False)
    assert failed.returncode
    assert "lock" in (failed.stdout + failed.stderr).lower()
    assert (copy / TABLE).read_bytes() == before


def test_a_clone_moved_to_another_path_has_nothing_to_do(copy, tmp_path):
    copy.rename(tmp_path / "elsewhere")
    assert not due(tmp_path / "elsewhere")
    assert "up to date" in run(tmp_path / "elsewhere", "dvc", "status").stdout
