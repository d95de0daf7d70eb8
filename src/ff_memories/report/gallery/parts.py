"""Parts of the site: JSON, deflated, in base64, in a script that hands it over.

A page that was opened from a file may load scripts from beside it, but read no other files.
"""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from ff_memories.base.files import write_whole


def pack(name: str, data: Any) -> str:
    """Return the script of a part."""
    plain = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return f'part("{name}","{base64.b64encode(zlib.compress(plain, 6)).decode()}");\n'


def unpack(script: str) -> Any:
    """Return what a part's script holds."""
    return json.loads(zlib.decompress(base64.b64decode(script.split('"')[3])))


def write(folder: Path, name: str, data: Any) -> None:
    """Write a part into a gallery's folder."""
    write_whole(folder / "data" / f"{name}.js", pack(name, data))


def read(folder: Path, name: str) -> Any:
    """Read a part of a gallery's folder."""
    return unpack((folder / "data" / f"{name}.js").read_text(encoding="utf-8"))
