"""Who is at work in this folder, Snakemake or DVC: one at a time, and what a killed one left is in nobody's way."""

import atexit
import contextlib
import json
import os
from pathlib import Path
from typing import Any

import psutil

from ff_memories.base.errors import UserError
from ff_memories.workflow.processes import HOST, end_with, name

RUNNING = Path(".snakemake/running")  # a file for every Snakemake at work here, with its process's name
LOCKS = Path(".snakemake/locks")
RWLOCK = Path(".dvc/tmp/rwlock")  # what DVC works on here


def take_over() -> None:
    """Remove the locks of a Snakemake that was killed in this folder, unless another one may be at work here.

    As long as one may be, the records of those that were killed stay: they tell later that a lock is nobody's.
    """
    RUNNING.mkdir(parents=True, exist_ok=True)
    own = RUNNING / name(os.getpid())
    own.touch()
    atexit.register(own.unlink, missing_ok=True)
    others = [path for path in RUNNING.iterdir() if path != own]
    if others and not any(_at_work(path.name) for path in others):
        for path in [*LOCKS.glob("*.lock"), *others]:
            path.unlink(missing_ok=True)


def _at_work(record: str) -> bool:
    """Whether a record's process runs, as far as can be told: another machine's may."""
    host, pid, _ = record.rsplit(" ", 2)
    return host != HOST or name(int(pid)) == record


def withdraw() -> None:
    """Take back that this process is at work here: it has read the workflow, and locks nothing."""
    (RUNNING / name(os.getpid())).unlink(missing_ok=True)


def heed_dvc(is_stage: bool, is_main: bool) -> None:
    """Let a Snakemake that is a stage of DVC's end with it; any other one waits until DVC has ended.

    DVC locks no Snakemake out by itself.

    Raises:
        UserError: the DVC whose stage this is was killed already, or another one runs or replaces files here.
    """
    writing = _dvc_writing()
    alive = [pid for pid in writing if name(pid)]
    if not is_stage and alive:
        raise UserError(f"`{writing[alive[0]]}` is at work here (process {alive[0]})", "wait until it has ended")
    if is_stage and is_main:
        if own := writing.keys() & {process.pid for process in psutil.Process().parents()}:
            end_with(min(own))
        elif writing and not alive:
            raise UserError("the DVC whose stage this is was killed", "give its command again")


def mend_record_of_dvc() -> None:
    """Remove DVC's own record of who works here if DVC was killed over it: it stops at one that it cannot read.

    Nothing is lost with it. Whoever writes it holds another lock, which ends with the process.
    """
    if _record_of_dvc() is None:
        from dvc.lock import LockError, make_lock  # Snakemake needs nothing of DVC, and it takes a while

        with contextlib.suppress(LockError), make_lock(f"{RWLOCK}.lock", tmp_dir=str(RWLOCK.parent)):
            if _record_of_dvc() is None:
                RWLOCK.unlink()


def _dvc_writing() -> dict[int, str]:
    """Return {process: its command} of those that DVC's own record says run stages or replace files here."""
    return {writer["pid"]: writer["cmd"] for writer in (_record_of_dvc() or {}).get("write", {}).values()}


def _record_of_dvc() -> Any:
    """Return DVC's record of who works here; None where it cannot be read, for DVC writes it or was killed over it."""
    try:
        return json.loads(RWLOCK.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        return None
