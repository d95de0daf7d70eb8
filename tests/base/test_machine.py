"""Jobs that run at once get different devices, until they end; cores and memory are those that a process may use."""

import os
import subprocess
import sys

import pytest

from ff_memories.base import machine

HOLD = """
import sys, time
from ff_memories.base.machine import acquire_gpu as acquire
print(acquire(2, sys.argv[1], wait=0.02), flush=True)
time.sleep(float(sys.argv[2]))
"""


def job(folder, seconds):
    return subprocess.Popen([sys.executable, "-c", HOLD, folder, str(seconds)], stdout=subprocess.PIPE, text=True)


def test_two_jobs_hold_two_devices_and_a_third_gets_the_one_of_a_job_that_was_killed(tmp_path):
    first, second = job(tmp_path, 60), job(tmp_path, 60)
    held = [first.stdout.readline().strip(), second.stdout.readline().strip()]
    assert sorted(held) == ["0", "1"]
    third = job(tmp_path, 0)
    assert third.poll() is None
    second.kill()
    assert third.stdout.readline().strip() == held[1]
    third.wait()
    first.kill()
    for process in (first, second, third):
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("file", ["job/memory.max", "memory/job/memory.limit_in_bytes"])  # version 2 and 1
def test_a_job_of_a_cluster_has_the_memory_of_its_control_groups_and_the_cores_that_it_was_given(monkeypatch, file):
    files = {"/proc/self/cgroup": ["5:cpu,cpuacct:/", "4:memory:/job/step", "0::/job/step"]}
    files |= {f"/sys/fs/cgroup/{file}": ["3000000"], "/sys/fs/cgroup/job/step/memory.max": ["max"]}
    monkeypatch.setattr(machine, "_lines", lambda path: files.get(str(path), []))
    assert machine.memory() == 3_000_000
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, list(before)[:1])
    assert machine.cores() == 1
    os.sched_setaffinity(0, before)
