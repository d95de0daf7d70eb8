"""One GPU for one job: Snakemake counts devices but hands none out, so jobs of one machine take turns by file locks."""

import fcntl
import os
import tempfile
import time
from pathlib import Path
from typing import IO

_held: dict[Path, IO[str]] = {}  # a lock lasts as long as the process, however it ends


def present() -> bool:
    """Whether this machine shows a GPU, found without loading torch."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and any(Path("/dev").glob("nvidia[0-9]*"))


def acquire(devices: int, folder: str | Path | None = None, wait: float = 0.5) -> int:
    """Return the number of a device that no other job holds, waiting for one; a job that has one keeps it.

    Devices are those this job may see: under SLURM, or with ``CUDA_VISIBLE_DEVICES`` set, the ones it was given. Their
    locks are named after what the machine calls them.

    Args:
        devices: how many this process sees.
        folder: of the lock files; the machine's temporary one.
        wait: seconds between two rounds of trying.
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
