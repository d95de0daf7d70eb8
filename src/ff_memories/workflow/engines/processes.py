"""Make processes end with another process, however it ends, so a killed run leaves none behind."""

import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import psutil

STARTED_BY = "FF_MEMORIES_SNAKEMAKE"  # the process id of the Snakemake that started this job
HOST = platform.node()
PATIENCE = 0.5  # seconds between two checks


def name(pid: int) -> str:
    """Return a unique name for a running process, even after its id is reused; an empty string if it has ended.

    A zombie, which was killed but not yet waited for, counts as ended.
    """
    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{HOST} {pid} {process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return ""


def end_with(pid: int) -> None:
    """End this process when another one ends.

    Do nothing for ids 0 and 1: such a job runs in a container, which cannot see processes outside.
    """

    def watch() -> None:
        while name(pid):
            time.sleep(PATIENCE)
        os.kill(os.getpid(), signal.SIGKILL)

    if pid > 1:
        threading.Thread(target=watch, daemon=True).start()


def start(command: list[Any], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command in its own process group; leaving the ``with`` block of the returned process kills the group.

    Leaving the block closes the process's ``stdin``; so does the system if this process is killed.
    """
    held = [sys.executable, "-P", __file__, *command]
    return subprocess.Popen(held, stdin=subprocess.PIPE, start_new_session=True, **options)


def run(command: list[Any]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; return its status and output."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        with start(command, stdout=out, stderr=err) as work:
            work.wait()
        said = [(file.seek(0), file.read())[1] for file in (out, err)]
    return subprocess.CompletedProcess(command, work.returncode, *said)


def _hold() -> None:
    os.read(0, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_hold, daemon=True).start()
    sys.exit(subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode)
