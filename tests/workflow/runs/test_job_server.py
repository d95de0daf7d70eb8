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


FOR_JOBS = arithmetic.environment("portable") | {job_server.THREADS[0]: "1", IN_LOG: "1", job_server.SERVER: ""}


@pytest.fixture
def server(monkeypatch):
    """A server for portable jobs of one thread, and the environment of such a job."""
    monkeypatch.setattr(os, "environ", os.environ | FOR_JOBS)
    monkeypatch.setattr(job_server, "_servers", [])
    job_server.start("portable", 1)
    (process,) = job_server._servers
    yield process
    process.communicate(timeout=20)


def job(*words: str, **options) -> subprocess.Popen:
    command, pipe = [sys.executable, "-m", "ff_memories.cli", "step", *words], subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=os.environ, **options)


def forks(server: subprocess.Popen) -> list[int]:
    return list(map(int, Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()))


def test_a_job_has_its_own_folder_streams_and_status(server, tmp_path):
    said, nothing = job("join", "--help").communicate(timeout=60)
    assert said.startswith("usage: ff-memories step join") and nothing == ""
    (tmp_path / "bad.yaml").write_text("run: [")
    bad = job("corpus", "--config", "bad.yaml", cwd=tmp_path)
    assert "error: bad.yaml: not valid YAML" in bad.communicate(timeout=60)[1] and bad.returncode == 2


def test_the_next_job_finds_imported_what_one_imported(server, tmp_path):
    shard, joined = (tmp_path / place / "counts/triggers.parquet" for place in ("shards/1-of-1", "run"))
    tables.write_counts("triggers", {"sentences": 1}, shard)
    costs = []
    for _ in range(3):
        log = job("join", "--shards", str(shard), "--joined", str(joined)).communicate(timeout=120)[1]
        costs.append(json.loads(log.splitlines()[-1].removeprefix("spent: "))["processor_seconds"])
    assert costs[-1] < 0.2


def test_a_job_that_is_killed_says_so_and_one_whose_caller_or_run_ends_ends(monkeypatch):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0ff-memories-tested")
        listener.listen()
        program = f"import time; from {job_server.__name__} import serve; "
        program += f"serve({listener.fileno()}, lambda argv: (print('begun', flush=True), time.sleep(600)))"
        command = [sys.executable, "-c", program]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
    monkeypatch.setattr(os, "environ", os.environ | FOR_JOBS | {job_server.SERVER: "ff-memories-tested portable 1"})
    for end, status in (
        (lambda begun, fork: os.kill(fork, signal.SIGKILL), job_server.KILLED),
        (lambda begun, fork: begun.send_signal(signal.SIGINT), 1),  # the fork's, for which its caller waited
        (lambda begun, fork: begun.kill(), -signal.SIGKILL),
        (lambda begun, fork: server.stdin.close(), 1),  # as the run's process ends, whatever ended it
    ):
        begun = job("join", "--help")
        assert begun.stdout.readline() == "begun\n"
        end(begun, forks(server)[0])
        log = begun.communicate(timeout=60)[1]
        assert begun.returncode == status
        assert ("as the system's does when memory runs out" in log) == (status == job_server.KILLED)
        while forks(server):
            time.sleep(0.05)
    server.wait(timeout=20)


def test_a_server_ends_at_once_with_the_process_that_started_it():
    program = "import atexit; from ff_memories.workflow.job_server import _servers, start; "
    program += "atexit.register(lambda: print(_servers[0].wait(20))); start('portable', 1)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == f"{-signal.SIGKILL}\n"


def test_a_job_of_another_kind_and_one_without_a_server_run_by_themselves(server):
    assert job_server.ask(["step", "join", "--help"]) == 0
    for name, other in (
        (arithmetic.CHOSEN, "fast"),
        (job_server.THREADS[0], "2"),
        (job_server.SERVER, "gone portable 1"),
    ):
        before, os.environ[name] = os.environ[name], other
        assert job_server.ask(["step", "join", "--help"]) is None
        os.environ[name] = before
