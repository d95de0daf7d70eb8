"""Files, written whole or not at all."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ff_memories.base.errors import UserError

_written: dict[Path, None] = {}  # what this process wrote whole, in order


def digests() -> dict[str, str]:
    """Return {path: MD5} of the files that this process wrote whole and that are still there."""
    return {str(p): hashlib.md5(p.read_bytes()).hexdigest() for p in _written if p.is_file()}


def wrote(folder: Path) -> None:
    """Count the files of a folder among those that this process wrote."""
    _written.update(dict.fromkeys(file for file in sorted(folder.rglob("*")) if file.is_file()))


def require_file(path: str | Path) -> None:
    """Raise ``UserError`` where something stands that is no file: whoever reads a pipe may wait for ever.

    What is missing passes: whoever opens it knows better what it should be.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: {'a directory' if path.is_dir() else 'a pipe or a device'}, not a file")


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a path to write to; what was written takes ``path``'s place when the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        yield partial
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o666 & ~mask)  # some writers leave files that only their owner can read
        partial.replace(path)
        _written[path] = None
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder to write to; it becomes ``folder``, not there yet, when the block ends without an error."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.rename(folder)
        wrote(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_whole(path: str | Path, text: str) -> None:
    """Write a text file, in UTF-8 with plain line ends, that never stands there half-written."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
