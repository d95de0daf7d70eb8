"""One GPU per job: Snakemake counts devices but assigns none, so a machine's jobs take turns with file locks."""

import fcntl
import os
import tempfile
import time
from pathlib import Path
from typing import IO

_held: dict[Path, IO[str]] = {}  # the system releases a lock when the process ends, however it ends


def present() -> bool:
    """Return whether this machine has a visible GPU, without loading torch."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and any(Path("/dev").glob("nvidia[0-9]*"))


def acquire(devices: int, folder: str | Path | None = None, wait: float = 0.5) -> int:
    """Return the number of a device that no other job holds; wait until one is free. A job keeps the one it has.

    Only devices visible to this job count: under SLURM, or with ``CUDA_VISIBLE_DEVICES`` set, those it was given.
    Lock files use the machine's own device names.

    Args:
        devices: how many this process sees.
        folder: folder for the lock files; default: the machine's temporary folder.
        wait: seconds between two attempts.
    """
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = names if len(names) == devices and all(names) else [str(i) for i in range(devices)]
    at = Path(folder or tempfile.gettempdir())
    paths = [at / f"ff-memories-gpu-{os.getuid()}-{name}.lock" for name in names]
    if own := [number for number, path in enumerate(paths) if path in _held]:
        return own[0]
    while True:
        for number, path in enumerate(paths):
            file = path.open("w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            _held[path] = file
            return number
        time.sleep(wait)
