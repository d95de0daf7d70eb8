"""Describe this machine, and read and write the description in a step's log."""

import json
import os
import platform
import shutil
import subprocess
from argparse import Namespace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ff_memories.base.hardware import arithmetic, gpu_locks

IN_LOG = "FF_MEMORIES_IN_LOG"  # set in jobs of Snakemake, whose logs say the machine and the files
MACHINE = "machine: "  # starts the log line that describes the machine
MADE = "made: "  # starts the log line that lists the files the step wrote, with their MD5
ON_CPU, MOST_TOKENS = 16_384, 65_536  # of ``batch_tokens: auto``


def hardware(step: Namespace | None = None) -> list[tuple[str, str]]:
    """Return this machine's processor, cores, memory, GPUs and versions, as far as they are known.

    ``step``: the arguments of a step that runs here; adds its device, threads and arithmetic.
    """
    facts = [("processor", _first("/proc/cpuinfo", "model name") or platform.processor() or platform.machine())]
    if known := arithmetic.instructions():
        facts.append(("instructions", known[-1]))
    facts.append(("cores", str(os.cpu_count())))
    if kib := _first("/proc/meminfo", "MemTotal"):
        facts.append(("memory", f"{int(kib.split()[0]) / 2**20:.0f} GiB"))
    facts += [("GPU", name) for name in _gpus()]
    facts.append(("system", f"{platform.system()}, Python {platform.python_version()}"))
    if step is not None and hasattr(step, "device"):
        facts += [
            ("torch", version("torch")),
            ("device", step.device),
            ("threads", str(step.threads)),
            ("arithmetic", "portable" if arithmetic.portable() else "fast"),
        ]
    return facts


def batch_tokens(asked: int | str, device: str) -> int:
    """Return the tokens of a forward pass: ``asked``, or for ``auto`` as many as fit the device.

    A GPU takes 1,024 for each GB of its memory, and at most ``MOST_TOKENS``: more make no pass faster. A model so wide
    that its batch does not fit goes on in halves (``buffers.retry_smaller``).
    """
    if asked != "auto":
        return int(asked)
    gpus = _gpus() if device != "cpu" and gpu_locks.present() else []
    mebibytes = gpus[0].rpartition(",")[2].split()[0] if gpus else ""
    if not mebibytes.isdecimal():
        return ON_CPU
    return min(MOST_TOKENS, max(1024, int(int(mebibytes) * 2**20 / 10**9) * 1024))


def _first(path: str, field: str) -> str | None:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), None)


def _gpus() -> list[str]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    asked = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def said(log: Path, begins: str, nothing: Any) -> Any:
    """Return the data of the last log line that begins with ``MACHINE`` or ``MADE``; ``nothing`` if there is none."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    lines = [line for line in text.splitlines() if line.startswith(begins)]
    try:
        return json.loads(lines[-1].removeprefix(begins)) if lines else nothing
    except ValueError:
        return nothing


def of(log: Path) -> str:
    """Return the machine of a step's log in words: ``processor AMD EPYC, instructions avx2, ...``."""
    return ", ".join(f"{name} {what}" for name, what in said(log, MACHINE, []))
