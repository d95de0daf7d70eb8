"""Text that readers see: escaped, for what others wrote is untrusted; put into templates; and memories' names.

Where a model counts both signs of a coefficient, a layer of d_m keys has 2 d_m memories. In memory, memory ``d_m + i``
is key i with its coefficients' signs changed and the value -v_i. Readers see ``12−`` and never that number.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ff_memories.base.errors import UserError

if TYPE_CHECKING:
    from jinja2 import Environment

# Cc: controls; Cf: invisible formats, including those that reverse the following text; Cs, Co, Cn: not characters.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "-": r"{-}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}",
    "[": "{[}", "]": "{]}", "*": "{*}",
}  # fmt: skip
MINUS = "−"
_KEY = re.compile(rf"(\d+)([-{MINUS}]?)")


def escape_invisible(text: str) -> str:
    """Return text with every invisible character spelled out, as in ``[U+202E]``."""
    return "".join(f"[U+{ord(c):04X}]" if unicodedata.category(c) in _HIDDEN else c for c in text)


def shown(text: str) -> str:
    """Return text for a terminal: with line breaks and tabs, and every other invisible character spelled out."""
    return "".join(p if p in "\n\t" or p.isprintable() else escape_invisible(p) for p in re.split(r"([\n\t])", text))


class SafeStream:
    """A stream to a terminal or a file, which no text that is written to it can steer.

    ``stream``: the stream itself, for what moves the cursor on purpose.
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


def listed(names: Sequence[str], last: str = "and") -> str:
    """Return ``a, b and c``."""
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def counted(n: int, one: str, many: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{n:,} {one if n == 1 else many}"


def finished(text: str) -> str:
    """Return text with a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


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


def opened(*columns: str | float) -> list[str]:
    """Return the first lines of a LaTeX table. A letter is a column type, a number a column's share of the line."""
    widths = [c if isinstance(c, str) else rf">{{\raggedright\arraybackslash}}p{{{c}\linewidth}}" for c in columns]
    packages = r"% \usepackage[T1]{fontenc} \usepackage{array,booktabs}"
    return [packages, rf"\begin{{tabular}}{{{''.join(widths)}}}", r"\toprule"]


def latex(text: str) -> str:
    """Return text escaped for LaTeX: it contains no command, ligature or optional argument."""
    return "".join(_LATEX.get(c, c) for c in escape_invisible(text))


@cache
def environment(package: str) -> "Environment":
    """Return the Jinja environment for a package's ``templates``; an undefined name in one is an error.

    Every value is escaped, except HTML that another template produced.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # takes a while

    loader = PackageLoader(f"ff_memories.{package}")
    blanks: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, **blanks)


def key_and_sign(memory: int, neurons: int | None) -> tuple[int, int]:
    """Return a memory's key and sign; ``neurons``: d_m where both signs count, else ``None``."""
    return (memory, 1) if neurons is None or memory < neurons else (memory - neurons, -1)


def memory_of(key: int, sign: int, neurons: int | None) -> int:
    """Return the memory of a key and a sign, the inverse of ``key_and_sign``."""
    return key if sign > 0 or neurons is None else key + neurons


def memory_name(memory: int, neurons: int | None) -> str:
    """Return a memory as readers see it: ``12``, or ``12−`` for key 12's negative coefficients."""
    key, sign = key_and_sign(memory, neurons)
    return f"{key}{MINUS if sign < 0 else ''}"


def parse_memory(text: str) -> tuple[int, int]:
    """Return key and sign of ``12``, ``12-`` or ``12−``. Raises ``UserError`` for anything else."""
    match = _KEY.fullmatch(text.strip())
    if match is None:
        raise UserError(f"key {text!r}: not a key", "give a number, such as 12, or 12- for its negative coefficients")
    return int(match[1]), -1 if match[2] else 1
