"""Pack the site's parts: JSON or bytes, deflated, as base64 in a script.

A page opened from disk may load scripts beside it, but no other files.
"""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from ff_memories.base.files import write_whole


def pack(name: str, data: Any) -> str:
    """Return a part's script; ``data``: bytes, or what JSON can hold."""
    plain = data
    if not isinstance(data, bytes):
        plain = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return f'part("{name}","{base64.b64encode(zlib.compress(plain, 6)).decode()}");\n'


def unpack(script: str) -> bytes:
    """Return the bytes in a part's script."""
    return zlib.decompress(base64.b64decode(script.split('"')[3]))


def write(folder: Path, name: str, data: Any) -> None:
    """Write a part into a gallery's folder."""
    write_whole(folder / "data" / f"{name}.js", pack(name, data))


def read(folder: Path, name: str) -> Any:
    """Read a part with JSON from a gallery's folder."""
    return json.loads(read_bytes(folder, name))


def read_bytes(folder: Path, name: str) -> bytes:
    """Read a part from a gallery's folder as bytes."""
    return unpack((folder / "data" / f"{name}.js").read_text(encoding="utf-8"))
