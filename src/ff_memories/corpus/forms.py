"""Which files are no plain text, by their content; plain text is UTF-8 with a paragraph on every line."""

import codecs
import csv
import io
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.corpus.dictionary import BYTE_ORDER_MARK
from ff_memories.corpus.segment import MARKS

SAMPLE = 1 << 20  # bytes that are looked at
LONGEST = 1 << 21  # bytes of a line
WRAPPED = range(30, 121)  # widths, in characters, at which editors and mail break lines
MARK = re.compile(  # of a document's beginning or end
    r"(?m)<\|(?:end|begin|start)_?of_?text\|>|^[ \t]*(?:</?s>|<[be]os>)[ \t\r]*$"
    r"|^[ \t]*<s>(?=.*</s>[ \t\r]*$)|</s>[ \t\r]*$"
)

PLAIN = "give plain text in UTF-8, with a paragraph on every line and <|endoftext|> on a line behind each document"
KINDS = {  # how files begin, and what they are
    rb"\x1f[\x8b\x9d]|BZh[1-9]1AY&SY|\xfd7zXZ\0|\x28\xb5\x2f\xfd": "compressed",
    rb"(?s).{257}ustar": "a tar archive",
    rb"\s*%PDF-": "a PDF",
    rb"\{\\rtf": "rich text (RTF)",
    rb"\xff\xfe|\xfe\xff": "UTF-16",
    rb"\s*(?i:<!doctype\s+html\b|<html\b)": "HTML",
    rb"\s*<\?xml\b": "XML",
    rb"PK\x03\x04": "a zip archive, or a document such as docx, odt or epub",
    rb"PAR1": "a parquet file",
}


def check(path: Path, lines_are_sentences: bool = False) -> None:
    """Raise ``UserError`` for a file that is missing, empty or, by its first ``SAMPLE`` bytes, no plain text."""
    with opened(path) as file:
        sample = file.read(SAMPLE)
        whole = not file.read(1)
    for beginning, what in KINDS.items():
        if re.match(beginning, sample):
            raise UserError(f"{path}: {what}, not plain text", PLAIN)
    if sample.count(0) > 0.01 * len(sample):
        raise UserError(f"{path}: holds NULs, so it is no text in UTF-8", PLAIN)
    if not whole:
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    try:  # the sample may end within a character
        text = codecs.getincrementaldecoder("utf-8")().decode(sample, final=whole).removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        before = sample[: error.start]
        raise not_utf8(path, before.count(b"\n") + 1, error.start - before.rfind(b"\n") - 1) from None
    if not text.strip():
        raise UserError(f"{path}: the file has no text", "give a file with at least one sentence")
    text = text.replace("\r\n", "\n")
    if text.count("\r") > text.count("\n"):
        raise UserError(f"{path}: its lines end as on old Macs, with a carriage return alone", PLAIN)
    if form := "JSON" if _looks_like_json(text) else _table(text):
        raise UserError(f"{path}: {form}, not plain text", PLAIN)
    if not lines_are_sentences:
        _refuse_wrapped(path, text)


def opened(path: Path) -> BinaryIO:
    """Open a text file to be read as bytes. Raises ``UserError`` where it is missing or no file."""
    require_file(path)
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise UserError(f"{path}: no such text file", "check corpus.train.files and corpus.validation.files") from None


def not_utf8(path: Path, line: int, byte: int) -> UserError:
    """Return the error for a text that is not UTF-8 at a byte of a line."""
    what = f"not UTF-8 at byte {byte} of the line; it may be CP1252, the usual encoding of Western Europe"
    return UserError(f"{path}, line {line}: {what}", f"if so: iconv -f CP1252 -t UTF-8 {path.name} > utf8.txt")


def _looks_like_json(text: str) -> bool:
    """Return whether a text is JSON lines, or JSON of several lines."""
    if re.match(r'\s*(\{\s*"|\[\s*[{"])[^\n]*\n\s*["{]', text):  # of several lines
        return True
    try:
        return all(isinstance(json.loads(line), dict | list) for line in text.strip().split("\n", 2)[:2])
    except (ValueError, RecursionError):
        return False


def _table(text: str) -> str | None:
    """Return what a row of names, and rows of as many cells, are by what parts the cells; ``None`` without these."""
    for mark, what in ((",", "CSV"), (";", "CSV"), ("\t", "tab-separated")):
        try:
            names, *rows = [row for row in csv.reader(io.StringIO(text), delimiter=mark) if row]
        except csv.Error:
            continue
        named = len(names) > 1 and all(re.fullmatch(r"\w[\w -]{0,38}\w|\w", name) for name in names)
        if named and len(rows) >= 3 and all(len(row) == len(names) for row in rows[:-1]):
            return what
    return None


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
    often = width in WRAPPED and len(pairs) >= 8 and len(full) >= 0.6 * len(pairs)
    if often and len(wrapped) >= 0.5 * len(full) and capitals <= 0.8 * len(wrapped):
        raise UserError(
            f"{path}: its lines are wrapped at {width} characters, and every line is read as a paragraph",
            "join the lines of each paragraph; or set corpus.segmenter: line, if lines are sentences",
        )
