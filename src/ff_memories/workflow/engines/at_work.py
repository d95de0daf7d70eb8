"""Let only one Snakemake or DVC work in this folder at a time, and clear the locks that a killed one left."""

import atexit
import contextlib
import json
import os
from pathlib import Path
from typing import Any

import psutil

from ff_memories.base.errors import UserError
from ff_memories.workflow.engines import engines
from ff_memories.workflow.engines.processes import HOST, end_with, name

RUNNING = Path(".snakemake/running")  # one file per running Snakemake, named after its process
LOCKS = Path(".snakemake/locks")
RWLOCK = Path(".dvc/tmp/rwlock")  # DVC's record of the files that it is working on


def take_over() -> None:
    """Remove the locks of a Snakemake that was killed in this folder, unless another one may be running here.

    If one may be, the records of the killed ones stay, so a later run can tell that their locks are stale.

    Raises:
        UserError: this folder may not be written to.
    """
    own = RUNNING / name(os.getpid())
    try:
        RUNNING.mkdir(parents=True, exist_ok=True)
        own.touch()
    except OSError as error:
        where = error.filename or RUNNING
        raise UserError(f"{where}: {error.strerror}", "run in a folder that you may write to") from None
    atexit.register(own.unlink, missing_ok=True)
    others = [path for path in RUNNING.iterdir() if path != own]
    if others and not any(_at_work(path.name) for path in others):
        for path in [*LOCKS.glob("*.lock"), *others]:
            path.unlink(missing_ok=True)


def _at_work(record: str) -> bool:
    """Return whether a record's process may be running; for another machine's process, always true."""
    host, pid, _ = record.rsplit(" ", 2)
    return host != HOST or name(int(pid)) == record


def withdraw() -> None:
    """Remove this process's record: it has read the workflow and locks nothing."""
    (RUNNING / name(os.getpid())).unlink(missing_ok=True)


def heed_dvc(is_stage: bool, is_main: bool) -> None:
    """Make a Snakemake that DVC started end with DVC; refuse any other Snakemake while DVC is running.

    DVC itself does not lock Snakemake out.

    Raises:
        UserError: the DVC that started this Snakemake was killed, or another one is running stages or replacing files.
    """
    writing = _dvc_writing()
    alive = [pid for pid in writing if name(pid)]
    if not is_stage and alive:
        raise UserError(f"`{writing[alive[0]]}` is running here (process {alive[0]})", "wait until it has finished")
    if is_stage and is_main:
        if own := writing.keys() & {process.pid for process in psutil.Process().parents()}:
            end_with(min(own))
        elif writing and not alive:
            raise UserError("the DVC command that started this stage was killed", "run that command again")


def mend_record_of_dvc() -> None:
    """Remove DVC's ``rwlock`` if DVC was killed while writing it, because DVC stops at an unreadable one.

    This is safe: the process that writes the file holds another lock, which ends with that process.
    """
    if _record_of_dvc() is None:
        with contextlib.suppress(engines.refusal_of_dvc()), engines.lock_of_dvc(RWLOCK):
            if _record_of_dvc() is None:
                RWLOCK.unlink()


def _dvc_writing() -> dict[int, str]:
    """Return {process: its command} of the DVC processes that run stages or replace files here."""
    return {writer["pid"]: writer["cmd"] for writer in (_record_of_dvc() or {}).get("write", {}).values()}


def _record_of_dvc() -> Any:
    """Return the content of DVC's ``rwlock``; ``None`` if unreadable, because DVC is writing it or was killed then."""
    try:
        return json.loads(RWLOCK.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        return None
