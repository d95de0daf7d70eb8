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

from ff_memories.base.hardware import arithmetic

MACHINE = "machine: "  # starts the log line that describes the machine
MADE = "made: "  # starts the log line that lists the files the step wrote, with their MD5


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
