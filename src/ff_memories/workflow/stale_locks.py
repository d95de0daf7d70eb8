"""A run that was killed needs no hand: its jobs end with it, and the next run takes the lock that it left."""

import atexit
import json
import os
import platform
import signal
import threading
import time
from pathlib import Path

import psutil

from ff_memories.base.errors import UserError

STARTED_BY = "FF_MEMORIES_SNAKEMAKE"  # the process whose job this is
RUNNING = Path(".snakemake/running")  # a file for every Snakemake at work here: host, process and when it began
LOCKS = Path(".snakemake/locks")
HOST = platform.node()
RWLOCK = Path(".dvc/tmp/rwlock")  # what DVC works on here
PATIENCE = 0.5  # seconds between two looks


def _name(process: psutil.Process) -> str:
    return f"{HOST} {process.pid} {process.create_time():.2f}"


def runs(pid: int) -> bool:
    """Whether a process runs: one that was killed and that nobody has waited for yet, a zombie, does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _at_work(name: str) -> bool:
    """Whether a record's process runs, as far as can be told: another machine's may."""
    host, pid, _ = name.rsplit(" ", 2)
    if host != HOST:
        return True
    try:
        return runs(int(pid)) and _name(psutil.Process(int(pid))) == name
    except psutil.NoSuchProcess:
        return False


def take_over() -> None:
    """Remove the locks of a Snakemake that was killed in this folder, unless another one may be at work here.

    As long as one may be, the records of those that were killed stay: they tell later that a lock is nobody's.
    """
    RUNNING.mkdir(parents=True, exist_ok=True)
    own = RUNNING / _name(psutil.Process())
    own.touch()
    atexit.register(own.unlink, missing_ok=True)
    others = [path for path in RUNNING.iterdir() if path != own]
    if others and not any(_at_work(path.name) for path in others):
        for path in [*LOCKS.glob("*.lock"), *others]:
            path.unlink(missing_ok=True)


def withdraw() -> None:
    """Take back that this process is at work here: it has read the workflow, and locks nothing."""
    (RUNNING / _name(psutil.Process())).unlink(missing_ok=True)


def dvc_writing() -> dict[int, str]:
    """Return {process: its command} of those that DVC's own record says run stages or replace files here."""
    try:
        writers = json.loads(RWLOCK.read_text(encoding="utf-8")).get("write", {}).values()
    except (FileNotFoundError, json.JSONDecodeError):  # no lock, or DVC is just writing it
        return {}
    return {writer["pid"]: writer["cmd"] for writer in writers}


def end_with_dvc() -> None:
    """Have this Snakemake, a stage of DVC's, end when DVC is killed. Raises ``UserError`` where it already was."""
    recorded, above = dvc_writing(), {process.pid for process in psutil.Process().parents()}
    if own := recorded.keys() & above:
        threading.Thread(target=_watch, args=(min(own),), daemon=True).start()
    elif recorded and not any(map(runs, recorded)):
        raise UserError("the DVC whose stage this is was killed", "give its command again")


def end_with_snakemake() -> None:
    """Have this process end when the Snakemake whose job it is was killed: the next run's jobs write the same files."""
    pid = int(os.environ.get(STARTED_BY, 0))
    if pid > 1:  # else it was started within a container that sees no process of the outside
        threading.Thread(target=_watch, args=(pid,), daemon=True).start()


def _watch(pid: int) -> None:
    while runs(pid):
        time.sleep(PATIENCE)
    os.kill(os.getpid(), signal.SIGKILL)
