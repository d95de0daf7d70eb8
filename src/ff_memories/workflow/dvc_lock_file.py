"""Read dvc.lock, the record of every output's content.

DVC treats a file as unchanged if its size, time and inode are; this module reads its bytes.
"""

import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.workflow.run import Run


class _Content(BaseModel):
    path: str
    md5: Annotated[str, Field(pattern=r"^[0-9a-f]{32}(\.dir)?$")]


class _Recorded(BaseModel):
    cmd: str = ""
    deps: list[_Content] = []
    outs: list[_Content] = []
    params: dict[str, dict[str, Any]] = {}


class _Lock(BaseModel):
    stages: dict[str, _Recorded]


def read(run: Run) -> dict[str, dict[str, Any]]:
    """Return the stages of a run's dvc.lock. Raises ``UserError`` if it is missing or damaged."""
    path = run.dvc_lock
    if not path.is_file():
        hint = f"run {run.again()}, then ff-memories adopt{run.option}"
        raise UserError(f"{path}: this run has not been recorded yet", hint)
    return stages_of(path)


def stages_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return the stages of a dvc.lock. Raises ``UserError`` if the file is missing or damaged."""
    return _stages(path, digest(path) if path.is_file() else "")


@cache
def _stages(path: Path, md5: str) -> dict[str, dict[str, Any]]:
    stages = foreign.read_yaml(path, _Lock, f"run git checkout {path}").model_dump(exclude_unset=True)["stages"]
    if any(Path(out["path"]).parts[2:3] == ("baselines",) for of in stages.values() for out in of.get("outs", [])):
        raise UserError(f"{path}: of an earlier version; in a clone, git checkout 55febef reads it")
    return dict(stages)


def outputs(run: Run) -> dict[str, tuple[str, str]]:
    """Return {output: (its stage, its recorded MD5)} of a run."""
    stages = read(run)
    return {out["path"]: (name, out["md5"]) for name, stage in stages.items() for out in stage.get("outs", [])}


def differing(run: Run) -> dict[str, str]:
    """Return {output: its stage} for the outputs here whose content differs from the record."""
    recorded = outputs(run)
    return {path: stage for path, (stage, md5) in recorded.items() if os.path.exists(path) and content(path) != md5}


def content(path: str | Path) -> str:
    """Return DVC's digest of a file (its MD5) or of a directory (the MD5 of its listing)."""
    if not os.path.isdir(path):
        return digest(path)
    files = sorted((file.relative_to(path).as_posix(), digest(file)) for file in inside(path))
    rows = [{"md5": md5, "relpath": name} for name, md5 in files]
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode()).hexdigest() + ".dir"


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
