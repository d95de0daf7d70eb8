"""What a run cost, from Snakemake's benchmark files. It differs each time, so nothing else is compared with it."""

import csv
import os
import platform
import shutil
import subprocess
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from ff_memories import arithmetic
from ff_memories.errors import UserError

MACHINE = "machine: "  # begins the line of a step's log that says what it ran on
MADE = "made: "  # begins the line of a step's log that names the files it wrote, with their MD5


@dataclass(frozen=True)
class Cost:
    """What the jobs of one rule took together: wall-clock and processor seconds, and the largest peak memory."""

    rule: str
    jobs: int
    seconds: float
    processor_seconds: float | None
    peak_mib: float | None


def costs(paths: list[str]) -> list[Cost]:
    """Return the costs by rule, dearest first.

    A file in a folder of its rule (``trigger_shard/1-of-4.tsv``) is one of several jobs; any other is named by its
    rule. Raises ``UserError`` for a file that is no benchmark.
    """
    jobs: dict[str, list[dict[str, float | None]]] = {}
    for path in map(Path, sorted(paths)):
        rule = path.stem if path.parent.name in ("logs", "benchmarks", "") else path.parent.name
        jobs.setdefault(rule, []).extend(_rows(path))
    made = [
        Cost(
            rule,
            len(rows),
            sum(row["s"] or 0.0 for row in rows),
            _together(sum, [row["cpu_time"] for row in rows]),
            _together(max, [row["max_rss"] for row in rows]),
        )
        for rule, rows in jobs.items()
        if rows
    ]
    return sorted(made, key=lambda cost: (-cost.seconds, cost.rule))


def _together(how: Callable[[list[float]], float], values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return how(known) if known else None


def _rows(path: Path) -> list[dict[str, float | None]]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        return [{name: reading(row.get(name)) for name in ("s", "cpu_time", "max_rss")} | {"s": float(row["s"])}
                for row in rows]  # fmt: skip
    except (OSError, UnicodeDecodeError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise UserError(f"{path}: not a benchmark file of Snakemake ({error!r})") from None


def reading(text: str | None) -> float | None:
    """Return a number of a benchmark file; none where Snakemake could not measure a job before it was over."""
    try:
        return float(text or "")
    except ValueError:
        return None


def hardware(step: Namespace | None = None) -> list[tuple[str, str]]:
    """Return what this machine is made of, as far as it tells: processor, cores, memory, GPUs, versions.

    ``step``: the arguments of a step that runs here, for the device, threads and arithmetic that it was given.
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
        facts += [("torch", version("torch")), ("device", step.device), ("threads", str(step.threads)),
                  ("arithmetic", "portable" if arithmetic.portable() else "fast")]  # fmt: skip
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


def duration(seconds: float) -> str:
    """Return seconds as people say them: ``4.2 s``, ``3 min 05 s``, ``2 h 10 min``."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
