"""What the campaigns share: the planted run in a folder of its own, digests of what it made, and a record of trials.

A campaign is a script: ``python tests/faults/kill.py --trials 60 --seed 1``. It writes what it found to
docs/data/faults/, from which ``python tests/faults/page.py`` makes docs/faults.md.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from conftest import BIN, ROOT
from test_planted import prepare

RECORDS = ROOT / "docs" / "data" / "faults"
RESULTS = Path("results/planted")
TIMES = ("logs/", "report/cost.html")  # what says how long something took differs from run to run


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600, help="begin no further trial after so long")
    return parser


def command(folder: Path, *more: str) -> list[str]:
    snakemake = [str(BIN / "snakemake"), "--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder)]
    return [*snakemake, "--configfile", str(folder / "my.yaml"), "--cores", "2", *more]


def start(folder: Path, *more: str, **env: str) -> subprocess.Popen:
    """Start the run, as a process group of its own, its output in a file beside the folder."""
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **env}
    with folder.with_suffix(".log").open("a") as log:
        return subprocess.Popen(command(folder, *more), cwd=folder, env=environment, stdout=log, stderr=log,
                                start_new_session=True)  # fmt: skip


def finish(folder: Path, *more: str, **env: str) -> bool:
    """Run to the end; say whether it succeeded."""
    return start(folder, *more, **env).wait() == 0


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file that a run made, but those of times."""
    root = folder / RESULTS
    names = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in names.items() if not n.startswith(TIMES)}


def differing(folder: Path, whole: dict[str, str]) -> list[str]:
    """Return what is missing, in excess or other than in an undisturbed run."""
    made = digests(folder)
    return sorted(name for name in made.keys() | whole.keys() if made.get(name) != whole.get(name))


@contextmanager
def undisturbed() -> Iterator[tuple[Path, Path, dict[str, str]]]:
    """Yield a folder for trials, a finished run in it, and that run's digests."""
    place = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        folder = place / "whole"
        folder.mkdir()
        prepare(folder)
        if not finish(folder):
            raise SystemExit(folder.with_suffix(".log").read_text()[-3000:])
        yield place, folder, digests(folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def fresh(place: Path, name: str, of: Path) -> Path:
    """Return a new folder with the inputs of a run and nothing made."""
    folder = place / name
    folder.mkdir()
    for path in of.iterdir():
        if path.is_file():
            shutil.copy2(path, folder / path.name)
    return folder


def copied(place: Path, name: str, of: Path) -> Path:
    """Return a copy of a finished run."""
    return Path(shutil.copytree(of, place / name, symlinks=True))


def record(campaign: str, given: argparse.Namespace, rows: list[dict]) -> None:
    """Write what a campaign found."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    content = {"seed": given.seed, "asked": given.trials, "rows": rows}
    (RECORDS / f"{campaign}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(rows, indent=1))


class Clock:
    """Says whether there is time for a further trial."""

    def __init__(self, minutes: float):
        self.end = time.monotonic() + 60 * minutes

    def left(self) -> bool:
        return time.monotonic() < self.end
