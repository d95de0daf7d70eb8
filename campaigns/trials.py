"""What the campaigns share: a run in a folder of its own, digests of what it made, and a record of trials.

A campaign is a script: ``python -m campaigns.corruption --trials 56 --seed 1``. It writes what it found to
docs/data/faults/, from which ``python -m campaigns.page`` makes docs/faults.md.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from planted_run import prepare
from running import BIN, ROOT

RECORDS = ROOT / "docs" / "data" / "faults"
RESULTS = Path("results/planted")
MADE = ("results", ".snakemake", "docstrings")  # folders that a run makes
TIMES = ("logs/", "report/cost.html")  # what says how long something took differs from run to run


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600, help="begin no further trial after so long")
    parser.add_argument(
        "--whole", type=Path, help="the undisturbed run, from another campaign; made there if it is not"
    )
    return parser


def prepare_demo(folder: Path) -> None:
    """Write the inputs of the demo run."""
    shutil.copytree(ROOT / "annotations", folder / "annotations")
    (folder / "data" / "demo").mkdir(parents=True)
    for name in ("model.pt", "dict.txt"):
        shutil.copy(ROOT / "data" / "demo" / name, folder / "data" / "demo" / name)
    shutil.copy(ROOT / "config" / "config.yaml", folder / "my.yaml")


PREPARE: dict[str, Callable[[Path], None]] = {"planted": prepare, "demo": prepare_demo}


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
    (root,) = (folder / "results").iterdir()
    names = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in names.items() if not n.startswith(TIMES)}


def differing(folder: Path, whole: dict[str, str]) -> list[str]:
    """Return what is missing, in excess or other than in an undisturbed run."""
    made = digests(folder)
    return sorted(name for name in made.keys() | whole.keys() if made.get(name) != whole.get(name))


@contextmanager
def undisturbed(of: str = "planted", whole: Path | None = None) -> Iterator[tuple[Path, Path, dict[str, str]]]:
    """Yield a folder for trials, a finished run (in it, or in ``whole``, which stays) and that run's digests."""
    place = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        folder = whole or place / "whole"
        if not folder.exists():
            folder.mkdir()
            PREPARE[of](folder)
        if not finish(folder):
            raise SystemExit(folder.with_suffix(".log").read_text()[-3000:])
        yield place, folder, digests(folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def fresh(place: Path, name: str, of: Path) -> Path:
    """Return a new folder with the inputs of a run and nothing made."""
    return Path(shutil.copytree(of, place / name, ignore=shutil.ignore_patterns(*MADE)))


def copied(place: Path, name: str, of: Path) -> Path:
    """Return a copy of a finished run."""
    return Path(shutil.copytree(of, place / name, symlinks=True))


def recorded(campaign: str) -> list[dict]:
    """Return the rows of what a campaign found before."""
    path = RECORDS / f"{campaign}.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []


def record(campaign: str, rows: list[dict], *key: str) -> None:
    """Write what a campaign found; of earlier ones, what has no row of the same ``key`` now is kept."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    path = RECORDS / f"{campaign}.json"
    name = lambda row: [row[part] for part in key]
    kept = [row for row in recorded(campaign) if name(row) not in [name(new) for new in rows]]
    content = {"rows": [*kept, *rows]}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


class Clock:
    """Says whether there is time for a further trial."""

    def __init__(self, minutes: float):
        self.end = time.monotonic() + 60 * minutes

    def left(self) -> bool:
        return time.monotonic() < self.end
