"""Corpus text is anybody's: made visible, and safe in CSV."""

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

# Cc: controls; Cf: invisible formats, among them those that reverse the text after them; Cs, Co, Cn: no characters.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def escape_invisible(text: str) -> str:
    """Return text with every invisible character spelled out, as in ``[U+202E]``."""
    return "".join(f"[U+{ord(c):04X}]" if unicodedata.category(c) in _HIDDEN else c for c in text)


def cell(value: Any) -> Any:
    """Return one CSV cell that no spreadsheet takes for a formula; numbers stay numbers."""
    if not isinstance(value, str):
        return "" if value is None else value
    value = escape_invisible(value)
    first = unicodedata.normalize("NFKC", value.lstrip()[:1])  # spreadsheets also take wide signs for formulas
    return f"'{value}" if first in ("=", "+", "-", "@") else value


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a CSV file's text, in UTF-8 with plain line ends."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([cell(value) for value in row] for row in rows)
    return out.getvalue()
