"""Download one file: try mirrors in order, resume partial downloads, limit the size, compute the SHA-256."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import requests

from ff_memories.base.errors import UserError
from ff_memories.base.files import sha256
from ff_memories.base.progress import Progress
from ff_memories.inputs.registry import Part

CHUNK = 1 << 16  # bytes; a broken connection loses at most this many
ATTEMPTS = 5  # per mirror
TIMEOUT = (15, 60)  # seconds to connect, and to wait for the next chunk
PASSING = {408, 425, 429, 500, 502, 503, 504}


class MirrorFailed(Exception):
    """A mirror failed; the next one may work."""


@dataclass(frozen=True)
class Got:
    """A complete file, and where it came from."""

    path: Path
    url: str
    sha256: str
    bytes: int


def download(part: Part, folder: Path, trusted: str | None = None, wait: float = 2.0) -> Got:
    """Download a file into ``folder``.

    Args:
        part: the file's mirrors, size and checksum.
        folder: the folder to write to; the file is ``name.partial`` until it is complete.
        trusted: the SHA-256 of an earlier download of this file, if the registry has none.
        wait: seconds before the second attempt; doubled before each further one.

    Raises:
        UserError: every mirror failed; the message has each one's reason.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target, wanted, said = folder / part.name, part.sha256 or trusted, []
    if target.is_file():  # put here by hand, or left by a run that stopped before unpacking
        found = sha256(target)
        if wanted in (None, found):
            return Got(target, "file already there", found, target.stat().st_size)
        raise UserError(f"{target}: SHA-256 is {found}, expected {wanted}", f"remove {target} and fetch again")
    for url in part.urls:
        try:
            got = _from(url, part, target, wanted, wait)
        except MirrorFailed as error:
            print(f"{part.name}: {url}: {error}", file=sys.stderr)
            said.append(f"{url}: {error}")
            continue
        got.replace(target)
        _note(target).unlink(missing_ok=True)
        return Got(target, url, sha256(target), target.stat().st_size)
    raise UserError(f"{part.name}: every mirror failed: {'; '.join(said)}", f"download the file yourself to {target}")


def _note(target: Path) -> Path:
    return target.with_name(target.name + ".partial.json")


def _from(url: str, part: Part, target: Path, wanted: str | None, wait: float) -> Path:
    """Download from one mirror, with retries; return the complete, checked partial file."""
    partial, restarted = target.with_name(target.name + ".partial"), False
    if _known(target).get("url") != url and wanted is None:
        partial.unlink(missing_ok=True)  # another mirror's bytes, with no checksum to check them
    error: Exception | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(min(wait * 2 ** (attempt - 1), 60))
        before = partial.stat().st_size if partial.exists() else 0
        try:
            _continue(url, part, partial, target)
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as fault:
            error = fault
            now = partial.stat().st_size if partial.exists() else 0
            print(f"{part.name}: {_short(fault)} after {now:,} bytes; trying again", file=sys.stderr)
            continue
        if wanted in (None, found := sha256(partial)):
            return partial
        partial.unlink()
        _note(target).unlink(missing_ok=True)
        if restarted or not before:
            raise MirrorFailed(f"wrong content: SHA-256 is {found}, expected {wanted}")
        restarted = True  # the error may be in the part that was there before resuming
    raise MirrorFailed(f"gave up after {ATTEMPTS} attempts ({_short(error)})" if error else "wrong content")


def _short(error: Exception | None) -> str:
    said = str(error)
    return "no connection" if "Max retries exceeded" in said else f"{type(error).__name__}: {said}"[:160]


def _known(target: Path) -> dict[str, str]:
    try:
        return json.loads(_note(target).read_text())
    except (OSError, ValueError):
        return {}


def _continue(url: str, part: Part, partial: Path, target: Path) -> None:
    """Request the missing bytes once, and append them."""
    at = partial.stat().st_size if partial.exists() else 0
    limit = part.bytes or part.at_most
    if at and at == part.bytes:
        return
    headers = {"Accept-Encoding": "identity"}
    if at:
        headers["Range"] = f"bytes={at}-"
        known = _known(target)
        if known.get("url") == url and known.get("validator"):
            headers["If-Range"] = known["validator"]
    try:
        answer = requests.get(url, headers=headers, stream=True, timeout=TIMEOUT)
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema) as e:
        raise MirrorFailed(str(e)) from None
    with answer:
        if answer.status_code == 416:  # the server's file is shorter than our partial one
            partial.unlink(missing_ok=True)
            raise requests.ConnectionError("the server's file is shorter than the partial download")
        if answer.status_code in PASSING:
            raise requests.ConnectionError(f"HTTP {answer.status_code}")
        if answer.status_code not in (200, 206):
            raise MirrorFailed(f"HTTP {answer.status_code} {answer.reason}")
        if answer.status_code == 206 and not answer.headers.get("Content-Range", "").startswith(f"bytes {at}-"):
            partial.unlink(missing_ok=True)
            raise requests.ConnectionError("the server sent a different range than requested")
        at = at if answer.status_code == 206 else 0
        length = answer.headers.get("Content-Length")
        total = at + int(length) if length else None
        if total is not None and part.bytes not in (None, total):
            raise MirrorFailed(f"the file has {total:,} bytes, expected {part.bytes:,}")
        if limit is not None and (total or 0) > limit:
            raise MirrorFailed(f"the file has {total:,} bytes, more than the limit of {limit:,}")
        strong = answer.headers.get("ETag", "")
        validator = strong if strong and not strong.startswith("W/") else answer.headers.get("Last-Modified")
        _note(target).write_text(json.dumps({"url": url, "validator": validator}))
        with partial.open("ab" if at else "wb") as file, Progress(total or limit or 0, "bytes", part.name) as bar:
            bar.step(at)
            for piece in answer.iter_content(CHUNK):
                at += len(piece)
                if limit is not None and at > limit:
                    file.truncate(0)
                    raise MirrorFailed(f"the file has more than {limit:,} bytes, the limit")
                file.write(piece)
                bar.step(len(piece))
        if at < (total or part.bytes or 0):
            raise requests.ConnectionError(f"the connection ended at {at:,} of {total or part.bytes:,} bytes")
