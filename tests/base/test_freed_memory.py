"""A job keeps the memory that it frees: pages are cleared once, not for every array."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from ff_memories.base import machine
kept = sys.argv[1] == "keep" and machine.keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    held = bytearray(b"a") * (40 << 20)
    del held
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how):
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    kept, pages = done.stdout.split()
    return kept == "True", int(pages)


def test_arrays_take_the_pages_of_those_before_them():
    kept, pages = faults("keep")
    if not kept:
        pytest.skip("this system's allocator is not glibc's")
    _, anew = faults("give back")
    assert 10 * pages < anew, "each array's pages were cleared anew"
