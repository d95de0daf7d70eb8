"""The planted run under conditions that should not matter, and on disks that fail; the same command mends it after.

Mounting small and read-only file systems needs root; without it those rows say so.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trials import RESULTS, copied, differing, digests, finish, fresh, options, record, start, undisturbed

Row = dict[str, object]


@contextmanager
def mounted(place: Path, *how: str) -> Iterator[bool]:
    """Mount a file system for a while; say whether it could be."""
    place.mkdir(parents=True, exist_ok=True)
    done = os.geteuid() == 0 and not subprocess.run(["mount", *how, str(place)], capture_output=True).returncode
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


def said(folder: Path, words: str) -> bool:
    """Whether the log of the run's last start, or of its steps, says this."""
    logs = [folder.with_suffix(".log"), *(folder / RESULTS / "logs").rglob("*.log")]
    return any(words in log.read_text(encoding="utf-8", errors="replace") for log in logs)


def strangers(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Another hash seed, locale, time zone and home."""
    folder = fresh(place, "strangers", whole)
    env = dict(PYTHONHASHSEED="12345", LC_ALL="C", LANG="tr_TR.UTF-8", TZ="Pacific/Kiritimati", HOME=str(place))
    done = finish(folder, **env)
    return {"ok": done and not differing(folder, expected), "found": told(differing(folder, expected))}


def one_core(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """One core in place of two: threads follow, so that only near-ties may differ."""
    folder = fresh(place, "one", whole)
    done = finish(folder, "--cores", "1")
    return {"ok": done and not differing(folder, expected), "found": told(differing(folder, expected))}


def two_at_once(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Two starts of the same run in the same folder."""
    folder = fresh(place, "two", whole)
    both = [start(folder), start(folder)]
    ends = [process.wait() for process in both]
    again = finish(folder)
    differ = differing(folder, expected)
    return {"ok": again and not differ, "found": f"{ends.count(0)} of 2 ended well; after one more, {told(differ)}"}


def moved(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """The finished run's folder under another name: nothing is due."""
    folder = copied(place, "moved", whole)
    shutil.move(folder, place / "else where")
    idle = nothing_due(place / "else where")
    return {"ok": idle, "found": "nothing is due" if idle else "something is due"}


def clock_back(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Every file a day in the future, as after a clock that jumped back: nothing is due."""
    folder = copied(place, "clock", whole)
    for path in folder.rglob("*"):
        os.utime(path, (time.time() + 86_400,) * 2, follow_symlinks=False)
    idle = nothing_due(folder)
    return {"ok": idle, "found": "nothing is due" if idle else "something is due"}


def nothing_due(folder: Path) -> bool:
    folder.with_suffix(".log").unlink(missing_ok=True)
    return finish(folder, "-n") and "Nothing to be done" in folder.with_suffix(".log").read_text(encoding="utf-8")


def read_only(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Results on a read-only file system; then on a writable one."""
    folder = fresh(place, "read-only", whole)
    with mounted(folder / "results", "-t", "tmpfs", "-o", "ro", "tmpfs") as done:
        if not done:
            return {"ok": None, "found": "needs root"}
        failed = not finish(folder)
        named = said(folder, "Read-only file system")
    again, differ = finish(folder), differing(folder, expected)
    return {
        "ok": failed and named and again and not differ,
        "found": f"refused by name: {named}; after: {told(differ)}",
    }


def full_disk(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Results on a disk that fills up, larger each time: every step meets it somewhere; then there is room."""
    folder = fresh(place, "full", whole)
    need = sum(path.stat().st_size for path in (whole / "results").rglob("*") if path.is_file()) // 1024
    with mounted(folder / "results", "-t", "tmpfs", "-o", f"size={need // 20}k", "tmpfs") as done:
        if not done:
            return {"ok": None, "found": "needs root"}
        failures, partial = 0, []
        for part in (20, 6, 3, 1.5):
            subprocess.run(["mount", "-o", f"remount,size={int(need // part)}k", folder / "results"], check=True)
            failures += not finish(folder)
            partial += [p.name for p in folder.rglob("*.partial") if not p.name.endswith(".state.partial")]
        subprocess.run(["mount", "-o", f"remount,size={4 * need}k", folder / "results"], check=True)
        again, differ = finish(folder), differing(folder, expected)
    found = f"failed {failures} times, half-written files left: {len(partial)}; after: {told(differ)}"
    return {"ok": failures > 1 and again and not differ and not partial, "found": found}


def told(differ: list[str]) -> str:
    return "the same bytes" if not differ else f"{len(differ)} files differ: {', '.join(differ[:3])}"


CONDITIONS: list[Callable[[Path, Path, dict[str, str]], Row]] = [
    moved, clock_back, read_only, strangers, two_at_once, one_core, full_disk,
]  # fmt: skip


def main() -> None:
    parser = options()
    parser.add_argument("--only", nargs="+", choices=[f.__name__ for f in CONDITIONS])
    given = parser.parse_args()
    rows = []
    with undisturbed() as (place, whole, expected):
        assert digests(whole) == expected
        for condition in CONDITIONS:
            if not given.only or condition.__name__ in given.only:
                rows.append({"what": condition.__doc__, **condition(place, whole, expected)})
                print(rows[-1], flush=True)
                record("conditions", given, rows)


if __name__ == "__main__":
    main()
