"""Processes that end with another one, in whatever way it ends: a run that is killed leaves nothing at work."""

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

STARTED_BY = "FF_MEMORIES_SNAKEMAKE"  # the Snakemake whose job this is
HOST = platform.node()
PATIENCE = 0.5  # seconds between two looks


def name(pid: int) -> str:
    """Return what tells a running process from all others, of all times; nothing of one that runs no more.

    One that was killed and that nobody has waited for yet, a zombie, does not run.
    """
    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{HOST} {pid} {process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return ""


def end_with(pid: int) -> None:
    """Have this process end when another one does.

    Nothing is done for 0 and 1: such a job runs in a container, which sees no process of the outside.
    """

    def watch() -> None:
        while name(pid):
            time.sleep(PATIENCE)
        os.kill(os.getpid(), signal.SIGKILL)

    if pid > 1:
        threading.Thread(target=watch, daemon=True).start()


def start(command: list[Any], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own, which is killed when the ``with`` of what is returned is left.

    That closes its ``stdin``. The system closes it, too, when this process is killed.
    """
    held = [sys.executable, "-P", __file__, *command]
    return subprocess.Popen(held, stdin=subprocess.PIPE, start_new_session=True, **options)


def run(command: list[Any]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; return its status and what it printed."""
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
