"""A command that ends, with all it started, when the process that started it does, in whatever way."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any


def start(command: list[Any], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own, killed when ``stdin`` of what is returned closes.

    The system closes it when this process ends, even where nothing of it could run any more (SIGKILL).
    """
    tethered = [sys.executable, "-P", __file__, *command]
    return subprocess.Popen(tethered, stdin=subprocess.PIPE, start_new_session=True, **options)


def run(command: list[Any]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; return its status and what it printed."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        work = start(command, stdout=out, stderr=err)
        try:
            work.wait()
        finally:
            work.communicate()  # closes what holds it, and waits
        said = [(file.seek(0), file.read())[1] for file in (out, err)]
    return subprocess.CompletedProcess(command, work.returncode, *said)


def _hold() -> None:
    os.read(0, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_hold, daemon=True).start()
    sys.exit(subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode)
