"""Format tokens and numbers of the gallery, and pack its parts.

A part is JSON, deflated, as base64 in a script: a page opened from disk may load scripts beside it, but no other files.
"""

import base64
import json
import unicodedata
import zlib
from pathlib import Path
from typing import Any

from ff_memories.base.files import write_whole
from ff_memories.base.text import escape_invisible

# characters that render as nothing although Unicode classes them as letters, marks or symbols
_BLANK = frozenset(map(chr, [0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x2800, 0x3164, 0xFFA0]))


def shown(token: str) -> str:
    """Return a token with invisible characters and leading combining marks spelled out.

    >>> shown("a\\u202eb"), shown("no\\u00a0break"), shown("\\u0301x")
    ('a[U+202E]b', 'no[U+00A0]break', '[U+0301]x')
    """
    marked = token and unicodedata.category(token[0]).startswith("M")
    return (f"[U+{ord(token[0]):04X}]" if marked else "") + "".join(
        f"[U+{ord(c):04X}]" if c in _BLANK or unicodedata.category(c) == "Zs" else c
        for c in escape_invisible(token[1:] if marked else token)
    )


def number(value: float | None, digits: int = 5) -> float | int | None:
    """Return a number rounded to significant digits, as an integer if it is whole; ``None`` for ``None``."""
    if value is None:
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def write(folder: Path, name: str, data: Any) -> None:
    """Write a part into a gallery's folder; ``data``: what JSON can hold."""
    plain = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    script = f'part("{name}","{base64.b64encode(zlib.compress(plain, 6)).decode()}");\n'
    write_whole(folder / "data" / f"{name}.js", script)


def read(folder: Path, name: str) -> Any:
    """Read a part from a gallery's folder."""
    script = (folder / "data" / f"{name}.js").read_text(encoding="utf-8")
    return json.loads(zlib.decompress(base64.b64decode(script.split('"')[3])))
