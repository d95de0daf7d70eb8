"""Jobs are forks of one process: they end as a process of their own would, and one that cannot be a fork is none."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ff_memories import tables
from ff_memories.base import arithmetic
from ff_memories.base.machine import IN_LOG
from ff_memories.workflow import job_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, every job runs by itself")


@pytest.fixture
def server(monkeypatch):
    """A server for portable jobs of one thread, and the environment of such a job."""
    for name, value in (arithmetic.environment("portable") | {job_server.THREADS[0]: "1", IN_LOG: "1"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(job_server.SERVER, "")
    monkeypatch.setattr(job_server, "_servers", [])
    job_server.start("portable", 1)
    (process,) = job_server._servers
    yield process
    process.stdin.close()
    assert process.wait(20) == 0


def job(*words: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "ff_memories.cli", "step", *words]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **streams, **options)


def forks(server: subprocess.Popen) -> list[int]:
    return list(map(int, Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()))


def test_a_job_has_its_own_folder_streams_and_status(server, tmp_path):
    said, nothing = job("join", "--help", cwd=tmp_path).communicate(timeout=60)
    assert said.startswith("usage: ff-memories step join") and nothing == ""
    (tmp_path / "bad.yaml").write_text("run: [")
    bad = job("corpus", "--config", "bad.yaml", "--out", "x", cwd=tmp_path)
    _, says = bad.communicate(timeout=60)
    assert bad.returncode == 2 and says.startswith("error: bad.yaml: not valid YAML") and not forks(server)


def test_the_next_job_finds_imported_what_one_imported(server, tmp_path):
    shard, joined = (tmp_path / place / "counts/triggers.parquet" for place in ("shards/1-of-1", "run"))
    tables.write_counts("triggers", {"sentences": 1}, shard)
    costs = []
    for _ in range(3):
        done = job("join", "--shards", str(shard), "--joined", str(joined))
        log = done.communicate(timeout=120)[1]
        assert done.returncode == 0, log
        costs.append(json.loads(log.splitlines()[-1].removeprefix("spent: "))["processor_seconds"])
    assert costs[-1] < 0.2


def test_a_job_that_is_killed_says_so_and_one_whose_caller_ends_ends(monkeypatch):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0ff-memories-tested")
        listener.listen()
        program = f"import time; from {job_server.__name__} import serve; "
        command = [sys.executable, "-c", program + f"serve({listener.fileno()}, lambda argv: time.sleep(600))"]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
    for_jobs = {job_server.SERVER: "ff-memories-tested portable 1", job_server.THREADS[0]: "1", IN_LOG: "1"}
    for name, value in for_jobs.items():
        monkeypatch.setenv(name, value)
    for end in (lambda begun, fork: os.kill(fork, signal.SIGKILL), lambda begun, fork: begun.kill()):
        begun = job("join", "--help")
        while not forks(server):
            time.sleep(0.05)
        end(begun, forks(server)[0])
        log = begun.communicate(timeout=60)[1]
        assert begun.returncode == -signal.SIGKILL or "as it does when memory runs out" in log
        while forks(server):
            time.sleep(0.05)
    assert begun.returncode == -signal.SIGKILL
    server.stdin.close()
    assert server.wait(20) == 0


@pytest.mark.parametrize(
    "other", [{arithmetic.CHOSEN: "fast"}, {job_server.THREADS[0]: "2"}, {job_server.SERVER: "gone portable 1"}]
)
def test_a_job_of_another_kind_and_one_without_a_server_run_by_themselves(server, other, monkeypatch):
    assert job_server.ask(["step", "join", "--help"]) == 0
    for name, value in other.items():
        monkeypatch.setenv(name, value)
    assert job_server.ask(["step", "join", "--help"]) is None
