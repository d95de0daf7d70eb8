"""Pack the site's parts: JSON, deflated, as base64 in a script.

A page opened from disk may load scripts beside it, but no other files.
"""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from ff_memories.base.files import write_whole


def pack(name: str, data: Any) -> str:
    """Return a part's script; ``data``: what JSON can hold."""
    plain = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return f'part("{name}","{base64.b64encode(zlib.compress(plain, 6)).decode()}");\n'


def write(folder: Path, name: str, data: Any) -> None:
    """Write a part into a gallery's folder."""
    write_whole(folder / "data" / f"{name}.js", pack(name, data))


def read(folder: Path, name: str) -> Any:
    """Read a part from a gallery's folder."""
    script = (folder / "data" / f"{name}.js").read_text(encoding="utf-8")
    return json.loads(zlib.decompress(base64.b64decode(script.split('"')[3])))
