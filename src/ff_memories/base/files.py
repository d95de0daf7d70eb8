"""Atomic writes: a file appears complete or not at all."""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError

PACKAGE = Path(__file__).parents[1]
CARRIED = PACKAGE / "project"  # what pyproject.toml puts into a wheel besides the package: Snakefile, rules, configs
_written: dict[Path, None] = {}  # files that this process wrote atomically, in order


def digests() -> dict[str, str]:
    """Return {path: MD5} of the files that this process wrote atomically and that still exist."""
    return {str(p): hashlib.md5(p.read_bytes()).hexdigest() for p in _written if p.is_file()}


def home() -> Path:
    """Return the folder with the Snakefile, ``workflow/``, ``config/``, ``profiles/`` and ``data/``: a clone's top.

    An installed package carries it.
    """
    return CARRIED if CARRIED.is_dir() else PACKAGE.parents[1]


@cache
def script(name: str) -> Any:
    """Return a script of ``data/`` as a module: what makes the inputs of recorded runs stands beside them."""
    spec: Any = spec_from_file_location(name, home() / "data" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sha256(*paths: Path) -> str:
    """Return the SHA-256 of a file, or of several as if they were one."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


def require_file(path: str | Path) -> None:
    """Raise ``UserError`` if a path exists and is not a regular file: opening a pipe could block forever.

    A missing path passes; the code that opens it gives a better message.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        found = "a directory" if path.is_dir() else "a pipe or a device"
        raise UserError(f"{path}: expected a file, found {found}", "give the path of a regular file")


def require_new(path: Path, what: str = "folder") -> None:
    """Raise ``UserError`` if something is there already; ``what``: what the user may choose another of."""
    if path.exists():
        raise UserError(f"{path}: already exists", f"remove it, or choose another {what}")


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it replaces ``path`` when the block ends without an error.

    Raises ``OSError`` where the system refuses to write (libraries that raise errors of their own quote its number),
    and ``UserError`` for the path of a folder, a pipe or a device, which a file would replace.
    """
    path = Path(path)
    require_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        partial.touch()
        try:
            yield partial
        except Exception as error:
            if isinstance(error, OSError) or (code := re.search(r"\(os error (\d+)\)", str(error))) is None:
                raise
            raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from None
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o666 & ~mask)  # some libraries write files that only their owner can read
        partial.replace(path)
        _written[path] = None
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to write to; it becomes the new ``folder`` when the block ends without an error."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.rename(folder)
        _written.update(dict.fromkeys(file for file in sorted(folder.rglob("*")) if file.is_file()))
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def replaced_folder(folder: Path, mark: str, what: str, names: Collection[str] = ()) -> Iterator[Path]:
    """Yield a temporary folder, which replaces ``folder`` when the block ends without an error.

    Raises ``UserError`` if the folder is neither empty nor ``what`` it should be, which has the file ``mark`` and, if
    there are ``names``, nothing by another one.
    """
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    of_another = not (folder / mark).is_file() or (names and not there <= set(names))
    if folder.exists() and of_another and (not folder.is_dir() or there):
        raise UserError(f"{folder}: contains something other than {what}", "name another folder with --out")
    with atomic_folder(folder) as partial:
        yield partial
        shutil.rmtree(folder, ignore_errors=True)


def write_whole(path: str | Path, text: str) -> None:
    """Write a text file atomically, in UTF-8 with line feeds as line ends."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: str | Path, data: object, **options: Any) -> None:
    """Write data as indented JSON, atomically; ``options``: as of ``json.dumps``."""
    write_whole(path, json.dumps(data, indent=1, **options) + "\n")


def in_project(path: Path) -> str:
    """Return a file's path in the project; for a path outside, which differs between machines, only its name."""
    return path.name if path.is_absolute() or ".." in path.parts else path.as_posix()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, which is made if needed: a second run waits here, and then finds what the first made."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
        with suppress(OSError):
            folder.rmdir()  # nothing was put there
