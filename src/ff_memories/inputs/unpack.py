"""Unpack only the named files of an archive, to paths that the archive cannot choose; or read one of them."""

import gzip
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

import polars as pl

from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write

BROKEN = (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError, RuntimeError)


def unpack(archive: Path, kind: str, wanted: list[str], folder: Path, limit: int, inside: str | None = None) -> None:
    """Unpack a ``zip``'s or a tar's files into ``folder``, all of them or none.

    ``wanted`` are found in any folder of the archive and written under their names; with ``inside``, all in that folder
    is, under its path there. Raises ``UserError`` where the archive is damaged or unpacks to more than ``limit``
    bytes, a path leads out of it, or a wanted file is missing or duplicated.
    """
    staged = folder.with_name(folder.name + ".partial")
    shutil.rmtree(staged, ignore_errors=True)
    try:
        taken = _extract(archive, kind, wanted, staged, limit, inside)
        if missing := [name for name in wanted if name not in taken]:
            raise UserError(f"{archive}: does not contain {', '.join(missing)}", "check the source's mirrors and files")
        folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(taken, key=lambda n: n in wanted):  # move the files that a run looks for last
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (staged / name).replace(folder / name)
    except BROKEN as error:
        raise UserError(f"{archive}: damaged ({error})", f"remove {archive} and fetch again") from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _extract(archive: Path, kind: str, wanted: list[str], staged: Path, limit: int, inside: str | None) -> list[str]:
    taken: list[str] = []
    left = limit
    for name, size, opened in _members(archive, kind == "zip"):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
            raise UserError(f"{archive}: refused, because the path {name!r} leads out of the archive")
        if inside is None:
            target = path.name if path.name in wanted else None
        else:
            target = path.relative_to(inside).as_posix() if path.is_relative_to(inside) else None
        left -= size  # also count files that are not wanted: reading a tar passes through them
        if left < 0:
            raise UserError(f"{archive}: refused, because it unpacks to more than {limit:,} bytes")
        if target is None:
            continue
        if target in taken:
            raise UserError(f"{archive}: contains {target} twice")
        (staged / target).parent.mkdir(parents=True, exist_ok=True)
        with opened as source, (staged / target).open("wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
        taken.append(target)
    return taken


def _members(archive: Path, is_zip: bool) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Yield (name, size, content) of a zip's or a tar's files.

    A link in a zip is a file with its target as content; of a tar, links and devices are left out.
    """
    if is_zip:
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if not info.is_dir():
                    yield info.filename, info.file_size, zipped.open(info)
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isreg() and (content := tar.extractfile(member)):
                    yield member.name, member.size, content


@contextmanager
def opened(archive: Path, member: str | None) -> Iterator[IO[bytes]]:
    """Open a file within a zip or tar archive for reading, unpacked if its name ends in ``.gz``; ``None``: the archive.

    Raises ``UserError`` where the archive is damaged, or has no such file.
    """
    again = f"remove {archive} and fetch again"
    try:
        if member is None:
            with archive.open("rb") as file:
                yield file
            return
        for name, _, content in _members(archive, zipfile.is_zipfile(archive)):
            if name == member:
                with content:
                    yield gzip.GzipFile(fileobj=content) if member.endswith(".gz") else content  # type: ignore[misc]
                return
        raise UserError(f"{archive}: does not contain {member}", again)
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's own
        raise UserError(f"{archive}: damaged ({error})", again) from None


def lines_of_parquet(parts: list[Path], target: Path) -> None:
    """Write the rows of parquet files as the lines of a text file, identical to the archive of the same text.

    A row is a line with its line end; an empty row becomes the archive's blank line (a space).
    """
    with atomic_write(target) as partial, partial.open("w", encoding="utf-8", newline="\n") as out:
        for part in parts:
            try:
                rows = pl.read_parquet(part, columns=["text"])["text"]
            except (pl.exceptions.PolarsError, OSError) as error:
                hint = f"remove {part} and fetch again"
                raise UserError(f"{part}: not a parquet file with text ({error})", hint) from None
            out.writelines((row or " ").rstrip("\n") + "\n" for row in rows)
