"""What others wrote is untrusted: spell out its invisible characters, and make it safe in CSV and on a terminal."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

# Cc: controls; Cf: invisible formats, including those that reverse the following text; Cs, Co, Cn: not characters.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def escape_invisible(text: str) -> str:
    """Return text with every invisible character spelled out, as in ``[U+202E]``."""
    return "".join(f"[U+{ord(c):04X}]" if unicodedata.category(c) in _HIDDEN else c for c in text)


def shown(text: str) -> str:
    """Return text for a terminal: with line breaks and tabs, and every other invisible character spelled out."""
    return "".join(p if p in "\n\t" or p.isprintable() else escape_invisible(p) for p in re.split(r"([\n\t])", text))


class SafeStream:
    """A stream to a terminal or a file, which no text that is written to it can steer.

    Attributes:
        stream: the stream itself, for what moves the cursor on purpose.
    """

    def __init__(self, stream: Any):
        self.stream = stream

    def write(self, text: str) -> int:
        return int(self.stream.write(shown(text)))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def cell(value: Any) -> Any:
    """Return one CSV cell that no spreadsheet reads as a formula; numbers stay numbers."""
    if not isinstance(value, str):
        return "" if value is None else value
    value = escape_invisible(value)
    first = unicodedata.normalize("NFKC", value.lstrip()[:1])  # spreadsheets also read full-width signs as formulas
    return f"'{value}" if first in ("=", "+", "-", "@") else value


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a CSV file's text, with line feeds as line ends."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([cell(value) for value in row] for row in rows)
    return out.getvalue()
