"""A run that was killed goes on with the same command; one that is at work is left alone."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest
from dvc.lock import make_lock
from pipeline import config
from running import BIN, ROOT, snakemake

from ff_memories.workflow.engines import at_work, dvc, lock, processes
from ff_memories.workflow.runs.run import Run

pytestmark = pytest.mark.more

TARGET = "results/planted/tables/sentences.parquet"


def start(folder, *targets, cores=2):
    """Start Snakemake as a process group of its own."""
    arguments = [BIN / "snakemake", "--snakefile", ROOT / "Snakefile", "--directory", folder, "--configfile",
                 folder / "my.yaml", "--cores", str(cores), "--", *targets]  # fmt: skip
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.Popen(arguments, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            start_new_session=True)  # fmt: skip


def jobs_below(process, *words):
    """Processes below `process` that are jobs of ours, with every one of `words` among their arguments."""

    def command(job):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended (a zombie, psutil says, is such a process)
            return job.cmdline()
        return []

    jobs = [(job, command(job)) for job in psutil.Process(process.pid).children(recursive=True)]
    return [job for job, said in jobs if "ff-memories" in " ".join(said) and set(words) <= set(said)]


def is_at_work(job):
    with contextlib.suppress(psutil.NoSuchProcess):
        return job.status() != psutil.STATUS_ZOMBIE
    return False


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return found


def test_after_a_kill_the_same_command_goes_on_and_its_jobs_end(tmp_path):
    from planted_run import prepare

    prepare(tmp_path)
    process = start(tmp_path, TARGET)
    jobs = wait_for(lambda: jobs_below(process))
    os.kill(process.pid, signal.SIGKILL)  # it alone: nobody ends its jobs
    process.wait()
    assert list((tmp_path / ".snakemake" / "locks").glob("*.lock"))
    wait_for(lambda: not any(map(is_at_work, jobs)))
    snakemake(tmp_path, "--", TARGET)
    assert (tmp_path / TARGET).exists()
    assert not list((tmp_path / ".snakemake" / "running").iterdir())


def test_a_killed_shard_is_made_again_and_nothing_else(planted_copy):
    """One core does the shards in a row: the run and its job are killed while the second is at work."""
    table, results = "tables/values.parquet", planted_copy / "results/planted"
    whole, shards = (results / table).read_bytes(), [results / f"shards/{n}-of-2" / table for n in (1, 2)]
    for path in (results / table, *shards):
        path.unlink()
    process = start(planted_copy, f"results/planted/{table}", cores=1)
    wait_for(lambda: any(path.exists() for path in shards), 300)
    second = 2 if shards[0].exists() else 1
    jobs = wait_for(lambda: jobs_below(process, f"{second}-of-2"), 300)
    for victim in (psutil.Process(process.pid), *jobs):
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
    process.wait()
    (done,) = (path for path in shards if path.exists())
    before = done.stat().st_mtime_ns
    said = snakemake(planted_copy, "--", f"results/planted/{table}").stderr
    stats = dict(re.findall(r"^(\w+) +(\d+)$", said.partition("Job stats:")[2], re.MULTILINE))
    assert stats == {"values": "1", "values_joined": "1", "total": "2"}
    assert done.stat().st_mtime_ns == before and (results / table).read_bytes() == whole


def test_a_second_run_beside_one_at_work_is_refused(tmp_path):
    from planted_run import prepare

    prepare(tmp_path)
    process = start(tmp_path, "all")
    try:
        wait_for(lambda: jobs_below(process))
        refused = snakemake(tmp_path, check=False)
        assert refused.returncode and "lock" in (refused.stdout + refused.stderr).lower()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("parent, ends", [("999999999", True), ("its own", False), ("0", False), ("1", False)])
def test_a_process_ends_with_the_one_it_is_told_of(parent, ends):
    parent = str(os.getpid()) if parent == "its own" else parent  # no test's name may differ between its workers
    code = (
        f"from ff_memories.workflow.engines import processes; import time; processes.end_with({parent}); time.sleep(3)"
    )
    child = subprocess.run([sys.executable, "-c", code])
    assert child.returncode == (-signal.SIGKILL if ends else 0)


STAGE = """\
import time
from ff_memories.workflow.engines.at_work import heed_dvc
heed_dvc(is_stage=True, is_main=True)
open("began", "w").close()
time.sleep(1)
open("done", "w").close()
"""


@pytest.mark.parametrize("writer, ends", [("its own", True), ("dead", True), ("another", False), ("none", False)])
def test_a_stage_ends_with_the_dvc_that_runs_it(tmp_path, writer, ends):
    """A shell may stand between DVC and Snakemake: DVC's own record tells which process it is."""
    (tmp_path / "stage.py").write_text(STAGE)
    (tmp_path / ".dvc" / "tmp").mkdir(parents=True)
    wait = "while ! [ -e .dvc/tmp/rwlock ]; do sleep 0.05; done"
    dvc = subprocess.Popen(["sh", "-c", f"{wait}; sh -c '{sys.executable} stage.py; true'; true"], cwd=tmp_path,
                           stderr=subprocess.DEVNULL)  # fmt: skip
    another = subprocess.Popen(["sleep", "60"])
    pid = {"its own": dvc.pid, "dead": 999999999, "another": another.pid}.get(writer)
    content = {"write": {"out": {"pid": pid, "cmd": "dvc repro"}} if pid else {}, "read": {}}
    (tmp_path / "written").write_text(json.dumps(content))
    (tmp_path / "written").rename(tmp_path / at_work.RWLOCK)
    if writer != "dead":
        wait_for((tmp_path / "began").exists)
    dvc.kill()
    dvc.wait()
    time.sleep(2)
    another.kill()
    another.wait()
    assert (tmp_path / "done").exists() is not ends


DEAD = f"{processes.HOST} 999999999 1.00"
ALIVE = processes.name(os.getppid())
REUSED = f"{processes.HOST} {os.getppid()} 1.00"  # the process's number has become another's
ELSEWHERE = "another-machine 1 1.00"


def take_over(folder):
    """As a Snakemake does that begins in a folder, and ends."""
    code = "from ff_memories.workflow.engines.at_work import take_over; take_over()"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


@pytest.mark.parametrize(
    "records, released",
    [
        ([DEAD], True), ([REUSED], True), ([DEAD, REUSED], True), ([], False), ([ALIVE], False), ([DEAD, ALIVE], False),
        ([DEAD, ELSEWHERE], False),
    ],
)  # fmt: skip
def test_locks_are_removed_only_where_nobody_can_hold_them(tmp_path, records, released):
    for name in records:
        (tmp_path / at_work.RUNNING / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / at_work.RUNNING / name).touch()
    (tmp_path / at_work.LOCKS).mkdir(parents=True)
    (tmp_path / at_work.LOCKS / "0.output.lock").touch()
    take_over(tmp_path)
    assert (tmp_path / at_work.LOCKS / "0.output.lock").exists() is not released


def test_a_zombie_holds_no_lock(tmp_path):
    child = subprocess.Popen(["sleep", "60"])
    name = processes.name(child.pid)
    child.kill()
    try:
        wait_for(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
        for path in (at_work.RUNNING / name, at_work.LOCKS / "0.output.lock"):
            (tmp_path / path).parent.mkdir(parents=True)
            (tmp_path / path).touch()
        take_over(tmp_path)
        assert not list((tmp_path / at_work.LOCKS).iterdir()) and not list((tmp_path / at_work.RUNNING).iterdir())
    finally:
        child.wait()


def test_what_was_killed_is_remembered_until_its_locks_can_go(tmp_path):
    for path in (at_work.RUNNING / DEAD, at_work.RUNNING / ALIVE, at_work.LOCKS / "0.output.lock"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    take_over(tmp_path)
    assert list((tmp_path / at_work.LOCKS).iterdir())
    (tmp_path / at_work.RUNNING / ALIVE).unlink()
    take_over(tmp_path)
    assert not list((tmp_path / at_work.LOCKS).iterdir())


def test_reading_the_workflow_is_no_work(tmp_path):
    """Else a command that reads it, and then starts Snakemake, would stand in its way."""
    from planted_run import prepare

    prepare(tmp_path)
    code = """\
from pathlib import Path
from ff_memories.workflow.engines import at_work, stages
from ff_memories.workflow.runs.opening import opened
with stages.workflow(opened(Path("my.yaml"))):
    assert at_work.RUNNING.is_dir() and not list(at_work.RUNNING.iterdir())
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def a_lock(*names, digit="0"):
    """Return a dvc.lock with one output per stage."""
    row = "  {0}:\n    cmd: make {0}\n    outs:\n    - path: {0}.txt\n      hash: md5\n      md5: '{1}'\n"
    return "schema: '2.0'\nstages:\n" + "".join(row.format(name, digit * 32) for name in names)


LOCK = a_lock("one", "two")
THE_RUN = Run(config(), "config/config.yaml")  # whose folder is the working one


@pytest.mark.parametrize("cut", [0, len(LOCK) // 2, LOCK.index("- path") + 4, LOCK.index("  two:")])
def test_a_lock_that_dvc_was_killed_over_is_put_back(tmp_path, monkeypatch, cut):
    monkeypatch.chdir(tmp_path)
    path, copy = tmp_path / "dvc.lock", tmp_path / ".dvc" / "tmp" / "dvc.lock.kept"
    (tmp_path / "dvc.yaml").write_text("stages: {one: {cmd: make one}, two: {cmd: make two}}")
    path.write_text(LOCK)
    with lock.kept(THE_RUN):
        assert copy.read_text() == LOCK
        path.write_text(LOCK[:cut])  # and nothing of this process would run any more
        lock.repair(THE_RUN)
        assert path.read_text() == LOCK


@pytest.mark.parametrize(
    "kept, declared, left",
    [
        ("of an earlier one\n", "one, two", a_lock("one", "two", digit="1")),
        (LOCK, "one, two", a_lock("one", "two", digit="1")),
        (LOCK, "one, two", a_lock("one", "two", "three")),
        (LOCK, "one", a_lock("one")),  # the stage was removed from dvc.yaml
    ],
)
def test_a_whole_lock_stays(tmp_path, monkeypatch, kept, declared, left):
    """DVC wrote it to the end, or somebody mended it."""
    monkeypatch.chdir(tmp_path)
    path, copy = tmp_path / "dvc.lock", tmp_path / ".dvc" / "tmp" / "dvc.lock.kept"
    copy.parent.mkdir(parents=True)
    stages = ", ".join(f"{name}: {{cmd: make}}" for name in declared.split(", "))
    (tmp_path / "dvc.yaml").write_text(f"stages: {{{stages}}}")
    copy.write_text(kept)
    path.write_text(left)
    lock.repair(THE_RUN)
    assert path.read_text() == left
    assert not copy.exists()


@pytest.mark.parametrize("content", ["", '{"write": {"/a": {"pid"'])
def test_a_record_of_who_works_here_that_dvc_was_killed_over_is_removed(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    dvc.call("init", "--no-scm", "--quiet")
    (tmp_path / "input").touch()
    (tmp_path / "dvc.yaml").write_text("stages: {one: {cmd: 'true', deps: [input]}}")
    rwlock = tmp_path / at_work.RWLOCK
    rwlock.parent.mkdir(exist_ok=True)
    rwlock.write_text(content)
    with make_lock(str(rwlock.with_name("rwlock.lock"))):  # another DVC is just writing it
        monkeypatch.setattr("dvc.lock.DEFAULT_TIMEOUT", 0)
        at_work.mend_record_of_dvc()
    assert rwlock.read_text() == content
    assert "one" in dvc.call("status")
    assert json.loads(rwlock.read_text())["write"] == {}
