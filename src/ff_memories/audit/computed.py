"""What this machine computed itself: the files that its jobs wrote, as their logs name them, and on what machine."""

import json
import os
from pathlib import Path
from typing import Any

from ff_memories.base.machine import MACHINE, MADE
from ff_memories.workflow import lock


def digests(results: str) -> dict[str, str]:
    """Return {file: MD5} that the jobs of a run wrote here, by the last line of their logs."""
    found: dict[str, str] = {}
    for log in sorted(Path(results, "logs").rglob("*.log")):
        found |= _line(log, MADE, {})
    return found


def machines(results: str) -> list[str]:
    """Return what the jobs of a run ran on here, in words; each machine once, that of most facts last."""
    found = {describe(_line(log, MACHINE, [])) for log in sorted(Path(results, "logs").rglob("*.log"))}
    return sorted(found - {""}, key=len)


def describe(facts: list[list[str]]) -> str:
    """Return a machine's facts in words: ``processor AMD EPYC, instructions avx2, ...``."""
    return ", ".join(f"{name} {what}" for name, what in facts)


def _line(log: Path, begins: str, nothing: Any) -> Any:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.startswith(begins)]
    try:
        return json.loads(lines[-1].removeprefix(begins)) if lines else nothing
    except ValueError:
        return nothing


def here(path: str, known: dict[str, str]) -> bool:
    """Whether a file, or all of a folder, is what a job of this machine wrote, by ``digests``, and was not edited."""
    inside = [file for file in Path(path).rglob("*") if file.is_file() and file.name != ".snakemake_timestamp"]
    files = list(map(str, inside)) if os.path.isdir(path) else [path]
    return bool(files) and all(known.get(file) == lock.digest(file) for file in files)
