"""Which files are no plain text by their content, and the one command that makes each plain text.

Plain text is UTF-8 with a paragraph on every line. Nothing here converts: a run reads the file that its config names.
"""

import csv
import io
import json
import re
import shlex
import sys
from itertools import count, pairwise
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.corpus.segment import MARKS

BYTE_ORDER_MARK = "\ufeff"
SAMPLE = 1 << 20  # bytes that are looked at
LONGEST = 1 << 21  # bytes of a line
LINE = 1000  # characters of a line that ``BREAK`` writes, at most
WRAPPED = range(30, 121)  # widths, in characters, at which editors and mail break lines
END = "<|endoftext|>"
MARK = re.compile(  # of a document's beginning or end
    r"(?m)<\|(?:end|begin|start)_?of_?text\|>|^[ \t]*(?:</?s>|<[be]os>)[ \t\r]*$"
    r"|^[ \t]*<s>(?=.*</s>[ \t\r]*$)|</s>[ \t\r]*$"
)

PANDOC = "pandoc -f {} -t plain --wrap=none"
BY_BEGINNING = {  # how files begin: what they are, and the command that reads one and writes text
    rb"\x1f[\x8b\x9d]": ("compressed by gzip", "gzip -dc"),
    rb"BZh[1-9]1AY&SY": ("compressed by bzip2", "bzip2 -dc"),
    rb"\xfd7zXZ\0": ("compressed by xz", "xz -dc"),
    rb"\x28\xb5\x2f\xfd": ("compressed by zstd", "zstd -dc"),
    rb"(?s).{257}ustar": ("a tar archive", "tar -xOf -"),
    rb"\s*%PDF-": ("a PDF", "pdftotext - -"),
    rb"\{\\rtf": ("rich text (RTF)", PANDOC.format("rtf")),
    rb"\xff\xfe|\xfe\xff": ("UTF-16", "iconv -f UTF-16 -t UTF-8"),
    rb"\s*(?i:<!doctype\s+html\b|<html\b)": ("HTML", PANDOC.format("html")),
    rb"\s*<\?xml\b": ("XML", PANDOC.format("html")),
    rb"PK\x03\x04(?s:.*)word/": ("a document (docx)", PANDOC.format("docx")),
    rb"PK\x03\x04(?s:.*)mimetypeapplication/vnd.oasis": ("a document (odt)", PANDOC.format("odt")),
    rb"PK\x03\x04(?s:.*)mimetypeapplication/epub": ("a document (epub)", PANDOC.format("epub")),
    rb"PK\x03\x04": ("a zip archive", "funzip"),
}


def check(path: Path, lines_are_sentences: bool = False) -> None:
    """Raise ``UserError`` for a file that is missing, empty or no plain text; then with the command that converts it.

    Its first ``SAMPLE`` bytes are looked at.
    """
    require_file(path)
    try:
        with path.open("rb") as file:
            sample = file.read(SAMPLE)
            whole = not file.read(1)
    except FileNotFoundError:
        raise UserError(f"{path}: no such text file", "check corpus.train.files and corpus.validation.files") from None
    _refuse_bytes(path, sample)
    if not whole:
        sample = sample[: sample.rfind(b"\n") + 1] or sample[: -(len(sample) % 4) - 4]
    try:
        text = sample.decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        if whole or error.start < len(sample) - 8:
            before = sample[: error.start]
            raise not_utf8(path, before.count(b"\n") + 1, error.start - before.rfind(b"\n") - 1) from None
        text = sample[: error.start].decode("utf-8")
    if not text.strip():
        raise UserError(f"{path}: the file has no text", "give a file with at least one sentence")
    text = text.replace("\r\n", "\n")
    if text.count("\r") > text.count("\n"):
        raise _refusal(path, "its lines end as on old Macs, with a carriage return alone", r"tr '\r' '\n'")
    _refuse_json(path, text)
    _refuse_tables(path, text)
    if not lines_are_sentences:
        _refuse_wrapped(path, text)


def not_utf8(path: Path, line: int, byte: int) -> UserError:
    """Return the error for a text that is not UTF-8 at a byte of a line."""
    what = f"not UTF-8 at byte {byte} of the line; it may be CP1252, the usual encoding of Western Europe"
    return _refusal(path, what, "iconv -f CP1252 -t UTF-8", f", line {line}")


def too_long(path: Path, line: int) -> UserError:
    """Return the error for a line that is too long to be a paragraph."""
    return _refusal(path, f"has more than {LONGEST:,} bytes, too many for a paragraph", BREAK, f", line {line}")


def _python(code: str, *modules: str) -> str:
    return shlex.join([sys.executable, "-X", "utf8", "-c", f"import {', '.join(sorted({'sys', *modules}))}; {code}"])


def _column(read: str, name: str) -> str:
    """Return the command that writes a column of a table as documents; ``read``: how polars reads the table."""
    return _python(f'[print(text + "\\n{END}") for text in polars.{read}[{json.dumps(name)}] if text]', "polars")


BREAK = _python(
    rf'[print(part) for line in sys.stdin for part in re.findall(r".{{1,{LINE}}}[.!?।؟۔]\s+|.{{1,{LINE}}}[。！？]|'
    rf'.{{1,{LINE}}}\s|.{{1,{LINE}}}", line)]',
    "re",
)


def command(path: Path, convert: str) -> str:
    """Return the hint that names the converted file and the command line that writes it."""
    names = (f"{path.stem[:50]}.plain{n or ''}.txt" for n in count())
    free = next(name for name in names if not Path(name).exists())
    return f"give {free}, which this makes: {convert} < {shlex.quote(str(path))} > {shlex.quote(free)}"


def _refusal(path: Path, what: str, convert: str, where: str = "") -> UserError:
    return UserError(f"{path}{where}: {what}", command(path, convert))


def _refuse_bytes(path: Path, sample: bytes) -> None:
    """Raise ``UserError`` for a file that begins as one of another kind does, or holds what no text holds."""
    for beginning, (what, convert) in BY_BEGINNING.items():
        if re.match(beginning, sample):
            raise _refusal(path, f"{what}, not plain text", convert)
    if sample.startswith(b"PAR1"):
        what = "a parquet file, not plain text; its text may be in the column text"
        raise _refusal(path, what, _column("read_parquet(sys.stdin.buffer)", "text"))
    if sample.count(0) > 0.01 * len(sample):
        raise UserError(f"{path}: holds NULs, so it is no text in UTF-8", "give a text file in UTF-8")


def _refuse_json(path: Path, text: str) -> None:
    """Raise ``UserError`` for JSON lines, and for JSON of several lines."""
    first = text.strip().split("\n", 2)[:2]
    if not all(map(_is_json, first)) and not re.match(r'\s*(\{\s*"|\[\s*[{"])[^\n]*\n\s*["{]', text):
        return
    code = shlex.quote(f'.. | (objects | .text) // empty | strings | . + "\\n{END}"')
    raise _refusal(path, 'JSON, not plain text; its text may be in "text"', f"jq -r {code}")


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict | list)
    except (ValueError, RecursionError):
        return False


def _refuse_tables(path: Path, text: str) -> None:
    """Raise ``UserError`` for a row of names, and rows of as many cells, which commas, semicolons or tabs part."""
    for mark, what in ((",", "CSV"), (";", "CSV"), ("\t", "tab-separated")):
        try:
            names, *rows = [row for row in csv.reader(io.StringIO(text), delimiter=mark) if row]
        except csv.Error:
            continue
        named = len(names) > 1 and all(re.fullmatch(r"\w[\w -]{0,38}\w|\w", name) for name in names)
        if not named or len(rows) < 3 or any(len(row) != len(names) for row in rows[:-1]):
            continue
        name = "text" if "text" in names else max(names, key=lambda name: len(rows[0][names.index(name)]))
        read = f"read_csv(sys.stdin.buffer, separator={json.dumps(mark)}, infer_schema=False)"
        raise _refusal(path, f"{what}, not plain text; its text is in the column {name}", _column(read, name))


def _refuse_wrapped(path: Path, text: str) -> None:
    """Raise ``UserError`` for paragraphs that are broken into lines of one width.

    Such a line has no room for the next line's first word, it seldom ends as a sentence does, and the next line seldom
    begins with a capital, as in verse.
    """
    lines = [line.rstrip() for line in text.split("\n")]
    widths = sorted(len(line) for line in lines if line)
    width = widths[int(0.97 * (len(widths) - 1))]
    pairs = [(line, after) for line, after in pairwise(lines) if line and after]
    full = [pair for pair in pairs if len(pair[0]) + 1 + min(len(pair[1].split()[0]), width // 4) > width]
    ended = re.compile(rf"[.!?…;:；：{MARKS}][\"')\]”’»›」』）】》〉]*$")
    wrapped = [(line, after) for line, after in full if " " in line.strip() and not ended.search(line)]
    capitals = sum(after.lstrip(" \t\"'([“‘«„")[:1].isupper() for _, after in wrapped)
    if width not in WRAPPED or len(pairs) < 8 or len(full) < 0.6 * len(pairs):
        return
    if len(wrapped) < 0.5 * len(full) or capitals > 0.8 * len(wrapped):
        return
    code = (
        rf'print(re.sub(r"(?<=[^\n]{{{width * 2 // 3}}})[ \t]*\n[ \t]*(?=\S)(?![-*•] |\d+[.)] )", " ", '
        r"textwrap.dedent(sys.stdin.read())))"
    )
    raise UserError(
        f"{path}: its lines are wrapped at {width} characters, and every line is read as a paragraph",
        command(path, _python(code, "re", "textwrap")) + "; or set corpus.segmenter: line, if lines are sentences",
    )
