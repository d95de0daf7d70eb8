"""Write the findings of ``verify``: lines for the terminal, and a certificate as JSON."""

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ff_memories.audit.recompute.sampling import Aim
from ff_memories.audit.verify.verify import TOLERATED, CheckedPart, faultless, smaller, unchecked, verified
from ff_memories.base.hardware.machine import hardware
from ff_memories.base.progress import duration
from ff_memories.report.wording import counted
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.runs.run import Run

SHOWN = 8  # faults of one part shown on the terminal; the certificate has all


def page(part: CheckedPart) -> Iterator[str]:
    """Yield one part's lines for the terminal."""
    mark = "FAIL" if part.faults and part.name not in TOLERATED else "ok"
    mark = "note" if mark == "ok" and (part.faults or part.open) else mark
    yield f"{mark:4} {part.name:12} {part.line}"
    yield from (f"{'':18}{note}" for note in [*part.notes, *part.open])
    sign = "-" if part.name in TOLERATED else "!"
    yield from (f"{'':16}{sign} {fault}" for fault in part.faults[:SHOWN])
    if len(part.faults) > SHOWN:
        yield f"{'':16}{sign} and {len(part.faults) - SHOWN} more"


def verdict(parts: list[CheckedPart], seconds: float, ended: bool = False) -> str:
    """Return the last line for the terminal; ``ended``: something ended the check before it was complete."""
    lacking = "".join(f"; {said}" for said in unchecked(parts))
    if ended:
        found = "no fault" if faultless(parts) else "faults"
        return f"NOT VERIFIED: ended after {duration(seconds)}{_with_few(parts)}, {found} until then{lacking}"
    if not faultless(parts):
        return f"NOT VERIFIED in {duration(seconds)}{lacking}"
    if lacking:
        return f"NO FAULT FOUND in {duration(seconds)}{_with_few(parts)}, but not all was checked{lacking}"
    again = next((part for part in parts if part.name == "recomputed"), None)
    said = f", recomputed: {'; '.join([again.line, again.data['summary']])}," if again else ""
    return f"VERIFIED{_with_few(parts)}{said} in {duration(seconds)}"


def _with_few(parts: list[CheckedPart]) -> str:
    rows = smaller(parts)
    if rows is None:
        return ""
    return f" with a smaller sample than usual ({counted(rows, 'row', 'rows')} of a table, not {Aim().rows})"


def certificate(parts: list[CheckedPart], seconds: float, run: Run, scope: str, ended: bool = False) -> dict[str, Any]:
    """Return all findings as data; ``ended``: until something ended the check before it was complete."""
    return {
        "certificate": "ff-memories verify",
        "version": 2,
        "verdict": f"verified{_with_few(parts)}" if verified(parts) and not ended else "not verified",
        "last_line": verdict(parts, seconds, ended),
        "complete": not ended,
        "faultless": faultless(parts),
        "not_checked": unchecked(parts),
        "run": run.config.run,
        "model": scope,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "commit": commit(),
        "dvc_lock_sha256": dvc_lock_file.digest(run.dvc_lock, "sha256"),
        "machine": hardware(),
        "parts": {
            part.name: {"summary": part.line, "notes": part.notes, "faults": part.faults, **part.data} for part in parts
        },
    }


def commit(folder: Path = Path()) -> str | None:
    """Return the commit of a folder's repository, with a ``+`` if tracked files differ from it.

    ``None`` outside of git, or if the repository does not track the folder.
    """
    ask = lambda *words: subprocess.run(
        ["git", "-C", folder, *words], capture_output=True, text=True, check=True
    ).stdout.strip()
    try:
        ask("ls-files", "--error-unmatch", ".")
        return ask("rev-parse", "HEAD") + ("+" if ask("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
