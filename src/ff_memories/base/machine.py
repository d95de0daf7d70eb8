"""This machine: what it is, as a step's log says it; one GPU for each job; and memory that is freed and kept."""

import ctypes
import fcntl
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from argparse import Namespace
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import psutil

from ff_memories.base import arithmetic

IN_LOG = "FF_MEMORIES_IN_LOG"  # set in jobs of Snakemake, whose logs say the machine and the files
MACHINE = "machine: "  # starts the log line that describes the machine
MADE = "made: "  # starts the log line that lists the files the step wrote, with their MD5
ON_CPU, MOST_TOKENS = 16_384, 65_536  # of ``batch_tokens: auto``
TRIM_THRESHOLD, MMAP_MAX = -1, -4  # glibc's malloc.h: M_TRIM_THRESHOLD, M_MMAP_MAX
KEPT = 128 << 20  # free bytes at the heap's end, above which they go back to the system
_held_gpus: dict[Path, IO[str]] = {}  # the system releases a lock when the process ends, however it ends


def hardware(step: Namespace | None = None) -> list[tuple[str, str]]:
    """Return this machine's processor, cores, memory, GPUs and versions, as far as they are known.

    ``step``: the arguments of a step that runs here; adds its device, threads and arithmetic.
    """
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    facts = [("processor", next(filter(None, names), platform.processor() or platform.machine()))]
    if instructions := arithmetic.instructions():
        facts.append(("instructions", instructions[-1]))
    facts += [("cores", str(cores())), ("memory", f"{memory() / 2**30:.0f} GiB")]
    facts += [("GPU", name) for name in _gpus()]
    facts.append(("system", f"{platform.system()}, Python {platform.python_version()}"))
    if step is not None and hasattr(step, "device"):
        facts += [("torch", version("torch")), ("device", step.device), ("threads", str(step.threads))]
        facts.append(("arithmetic", "portable" if arithmetic.portable() else "fast"))
    return facts


def cores() -> int:
    """Return how many processor cores this process may use: in a job of a cluster, not all of the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """Return how many bytes of memory this process may use: in a container or a cluster's job, not all that is here."""
    limits = [psutil.virtual_memory().total]
    groups = {kinds: group for _, kinds, group in (line.split(":", 2) for line in _lines("/proc/self/cgroup"))}
    for kind, file in (("", "memory.max"), ("memory", "memory.limit_in_bytes")):  # control groups, of version 2 and 1
        within = Path("/sys/fs/cgroup", kind, groups.get(kind, "").lstrip("/"))  # those around it limit it too
        limits += [int(text) for path in (within, *within.parents) for text in _lines(path / file) if text.isdecimal()]
    return min(limits)


def batch_tokens(asked: int | str, device: str) -> int:
    """Return the tokens of a forward pass: ``asked``, or for ``auto`` as many as fit the device.

    A GPU takes 1,024 for each GB of its memory, and at most ``MOST_TOKENS``: more make no pass faster. A model so wide
    that its batch does not fit goes on in halves (``batching.retry_smaller``).
    """
    if asked != "auto":
        return int(asked)
    gpus = _gpus() if device != "cpu" and gpu_present() else []
    mebibytes = gpus[0].rpartition(",")[2].split()[0] if gpus else ""
    if not mebibytes.isdecimal():
        return ON_CPU
    return min(MOST_TOKENS, max(1024, int(int(mebibytes) * 2**20 / 10**9) * 1024))


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _gpus() -> list[str]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    asked = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def logged(log: Path, begins: str, nothing: Any) -> Any:
    """Return the data of the last log line that begins with ``MACHINE`` or ``MADE``; ``nothing`` if there is none."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    lines = [line for line in text.splitlines() if line.startswith(begins)]
    try:
        return json.loads(lines[-1].removeprefix(begins)) if lines else nothing
    except ValueError:
        return nothing


def of_log(log: Path) -> str:
    """Return the machine of a step's log in words: ``processor AMD EPYC, instructions avx2, ...``."""
    return ", ".join(f"{name} {what}" for name, what in logged(log, MACHINE, []))


def gpu_present() -> bool:
    """Return whether this machine has a visible GPU, without loading torch."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and any(Path("/dev").glob("nvidia[0-9]*"))


def acquire_gpu(devices: int, folder: str | Path | None = None, wait: float = 0.5) -> int:
    """Return the number of a device that no other job holds; wait until one is free. A job keeps the one it has.

    Only devices visible to this job count: under SLURM, or with ``CUDA_VISIBLE_DEVICES`` set, those it was given.
    Lock files use the machine's own device names, in its temporary folder or another.
    """
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = names if len(names) == devices and all(names) else [str(i) for i in range(devices)]
    at = Path(folder or tempfile.gettempdir())
    paths = [at / f"ff-memories-gpu-{os.getuid()}-{name}.lock" for name in names]
    if locked := [number for number, path in enumerate(paths) if path in _held_gpus]:
        return locked[0]
    while True:
        for number, path in enumerate(paths):
            file = path.open("w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            _held_gpus[path] = file
            return number
        time.sleep(wait)


def keep_freed_memory() -> bool:
    """Have this process's allocator keep what it frees; return whether it can, which glibc's alone does.

    Otherwise glibc maps each array of some megabytes anew and the system clears its pages: up to a fifth of the time of
    steps that run the model. No number depends on it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(MMAP_MAX, 0) and mallopt(TRIM_THRESHOLD, KEPT))
