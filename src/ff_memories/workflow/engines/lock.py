"""Read dvc.lock, the record of every output's content.

DVC treats a file as unchanged if its size, time and inode are; this module reads its bytes.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write, require_file, write_whole
from ff_memories.workflow.runs.run import Run


class _Open(BaseModel, extra="allow"):
    """Has further keys too, which DVC reads."""


class _Content(_Open):
    path: str
    md5: Annotated[str, Field(pattern=r"^[0-9a-f]{32}(\.dir)?$")]


class _Recorded(_Open):
    cmd: str = ""
    deps: list[_Content] = []
    outs: list[_Content] = []
    params: dict[str, dict[str, Any]] = {}


class _Declared(_Open):
    cmd: str
    outs: list[str | dict[str, Any]] = []


class Lock(_Open):
    """A dvc.lock."""

    stages: dict[str, _Recorded]


class Stages(_Open):
    """A dvc.yaml."""

    stages: dict[str, _Declared]


class Pointer(_Open):
    """A file's ``.dvc``."""

    outs: Annotated[list[_Content], Field(min_length=1)]


def read(run: Run) -> dict[str, dict[str, Any]]:
    """Return the stages of a run's dvc.lock. Raises ``UserError`` if it is missing or damaged."""
    path = run.dvc_lock
    if not path.is_file():
        raise UserError(
            f"{path}: this run has not been recorded yet",
            f"run {run.again()}, then ff-memories adopt{run.option}",
        )
    return stages_of(path)


def stages_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return the stages of a dvc.lock. Raises ``UserError`` if the file is missing, damaged or incomplete."""
    found: dict[str, dict[str, Any]] = parsed(path, Lock)["stages"]
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        if file.read() != b"\n":
            raise UserError(f"{path}: incomplete", f"run git checkout {path}")
    return found


def parsed(path: Path, kind: type[BaseModel]) -> dict[str, Any]:
    """Return the data of a file of DVC's: a ``Lock``, ``Stages`` or a ``Pointer``. Raises ``UserError`` for others."""
    require_file(path)
    stat = path.stat() if path.is_file() else None
    return _parsed(path, kind, stat and (os.path.realpath(path), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))


@cache
def _parsed(path: Path, kind: type[BaseModel], _: object) -> dict[str, Any]:
    return foreign.read_yaml(path, kind, f"run git checkout {path}").model_dump(exclude_unset=True)


def _copy_of(run: Run) -> Path:
    return Path(".dvc/tmp", run.dvc_lock.as_posix().replace("/", "-") + ".kept")


@contextmanager
def kept(run: Run) -> Iterator[None]:
    """Keep a copy of a run's dvc.lock while DVC rewrites it, because DVC writes it in place, once per stage."""
    path, copy = run.dvc_lock, _copy_of(run)
    if path.is_file():
        with atomic_write(copy) as partial:
            shutil.copyfile(path, partial)
    try:
        yield
    finally:
        repair(run)


def repair(run: Run) -> None:
    """Restore the kept copy if DVC was killed while writing dvc.lock; otherwise remove the copy."""
    path, copy = run.dvc_lock, _copy_of(run)
    if copy.is_file():
        if _cut(path, copy, run):
            copy.replace(path)
        else:
            copy.unlink()


def _cut(path: Path, copy: Path, run: Run) -> bool:
    """Return whether dvc.lock is incomplete: damaged, or without a stage that its copy and dvc.yaml still have.

    A file that is cut between two stages can be read, so its syntax alone does not tell.
    """
    try:
        found = stages_of(path)
    except (OSError, UserError):
        return True
    try:
        before = stages_of(copy)
    except (OSError, UserError):
        return False
    lost = before.keys() - found.keys()
    return bool(lost and lost & declared(run).keys())


def declared(run: Run) -> dict[str, Any]:
    """Return the stages of a run's dvc.yaml."""
    stages: dict[str, Any] = parsed(run.dvc_yaml, Stages)["stages"]
    return stages


def forget(run: Run) -> list[str]:
    """Remove stages from dvc.lock that dvc.yaml no longer has, which DVC keeps; return their names."""
    known = declared(run)
    names = [name for name in read(run) if name not in known]
    if names:
        path = run.dvc_lock
        stage = rf"^  ({'|'.join(map(re.escape, names))}):\n(    .*\n)*"
        write_whole(path, re.sub(stage, "", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
    return names


def outputs(run: Run) -> dict[str, tuple[str, str]]:
    """Return {output: (its stage, its recorded MD5)} of a run."""
    found = read(run)
    return {out["path"]: (name, out["md5"]) for name, stage in found.items() for out in stage.get("outs", [])}


def differing(run: Run) -> dict[str, str]:
    """Return {output: its stage} for the outputs here whose content differs from the record."""
    recorded = outputs(run)
    return {path: stage for path, (stage, md5) in recorded.items() if os.path.exists(path) and content(path) != md5}


def content(path: str | Path) -> str:
    """Return DVC's digest of a file (its MD5) or of a directory (the MD5 of its listing)."""
    if not os.path.isdir(path):
        return digest(path)
    rows = [{"md5": digest(file), "relpath": file.relative_to(path).as_posix()} for file in inside(path)]
    listing = json.dumps(sorted(rows, key=lambda row: row["relpath"]), sort_keys=True)
    return hashlib.md5(listing.encode()).hexdigest() + ".dir"


def inside(folder: str | Path) -> list[Path]:
    """Return the files in an output folder, without Snakemake's timestamp file."""
    return [file for file in Path(folder).rglob("*") if file.is_file() and file.name != ".snakemake_timestamp"]


def digest(path: str | Path, algorithm: str = "md5") -> str:
    """Return a file's digest in hexadecimal, cached while the file's size and times stay the same."""
    stat = os.stat(path)
    return _digest(str(path), algorithm, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@cache
def _digest(path: str, algorithm: str, *_: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()
