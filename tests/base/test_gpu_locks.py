"""Jobs that run at once get different devices, and a device is free again when its job ends, however it ends."""

import subprocess
import sys

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
