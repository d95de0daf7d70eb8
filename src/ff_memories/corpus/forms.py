"""Which files are no plain text by their content, and the one command that makes each plain text.

Plain text is UTF-8 with a paragraph on every line. Nothing here converts: a run reads the file that its config names.
"""

import csv
import io
import json
import re
import shlex
import sys
import zipfile
from collections import Counter
from itertools import count, pairwise
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.corpus.segment import MARKS

BYTE_ORDER_MARK = "\ufeff"
SAMPLE = 1 << 20  # bytes that are looked at
LONGEST = 1 << 21  # bytes of a line
LINE = 1000  # characters of a line that ``BREAK`` writes, at most
NUL_SHARE = 0.01  # more NULs are no text
WRAPPED = range(30, 121)  # widths, in characters, at which editors and mail break lines
END = "<|endoftext|>"
MARK = re.compile(  # of a document's beginning or end
    r"(?m)<\|(?:end|begin|start)_?of_?text\|>|^[ \t]*(?:</?s>|<[be]os>)[ \t\r]*$"
    r"|^[ \t]*<s>(?=.*</s>[ \t\r]*$)|</s>[ \t\r]*$"
)
CONTROLS = bytes({*range(1, 9), *range(14, 27), 127})
OF_PAGES = re.compile(r"(?i)(?:body|p|div|h\d|[ou]l|li|table|section|article|blockquote)$")  # tags of HTML

PANDOC = "pandoc -f {} -t plain --wrap=none"
BY_BEGINNING = {  # how files begin: what they are, and the command that reads one and writes text
    rb"\x1f[\x8b\x9d]": ("compressed by gzip", "gzip -dc"),
    rb"BZh[1-9]1AY&SY": ("compressed by bzip2", "bzip2 -dc"),
    rb"\xfd7zXZ\0": ("compressed by xz", "xz -dc"),
    rb"\x28\xb5\x2f\xfd": ("compressed by zstd", "zstd -dc"),
    rb"\x04\x22\x4d\x18": ("compressed by lz4", "lz4 -dc"),
    rb"7z\xbc\xaf\x27\x1c": ("a 7-zip archive", "bsdtar -xOf -"),
    rb"(?s).{257}ustar": ("a tar archive", "tar -xOf -"),
    rb"\s*%PDF-": ("a PDF", "pdftotext - -"),
    rb"\{\\rtf": ("rich text (RTF)", PANDOC.format("rtf")),
    rb"\xd0\xcf\x11\xe0": ("a Word document of before 2007", "catdoc -w"),
    rb"\xff\xfe\0\0|\0\0\xfe\xff": ("UTF-32", "iconv -f UTF-32 -t UTF-8"),
    rb"[\0-\x7f]*?\x1b\$[@B]": ("ISO-2022-JP", "iconv -f ISO-2022-JP -t UTF-8"),
    rb"\xff\xfe|\xfe\xff": ("UTF-16", "iconv -f UTF-16 -t UTF-8"),
}
CODE = re.compile(
    r"[;{}]\s*$|^\s*(?:(?:def|class|import|from|return|if|for|while|elif|else|try)\b.*[:;({,]?$|#|//|\*)|\w\(.*\)|[^=]=[^=]"
)


def check(path: Path, lines_are_sentences: bool = False) -> str | None:
    """Return what a reader of the results should know of a text file; ``None``: nothing.

    Args:
        path: the file; its first ``SAMPLE`` bytes are looked at.
        lines_are_sentences: whether every line is a sentence, however long (``corpus.segmenter: line``).

    Raises:
        UserError: the file is missing or empty, or it is no plain text; then the fix is the command that converts it.
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
    _refuse_markup(path, text)
    _refuse_tables(path, text)
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines_are_sentences:
        _refuse_wrapped(path, text)
    indented = sum(line[0] in " \t" for line in lines) / len(lines)
    if indented > 0.15 and sum(CODE.search(line) is not None for line in lines) / len(lines) > 0.5:
        return "looks like code: every line is a paragraph by itself; indentation and line breaks are not read"
    return None


def not_utf8(path: Path, line: int, byte: int) -> UserError:
    """Return the error for a text that is not UTF-8 at a byte of a line."""
    with path.open("rb") as file:
        sample = file.read(SAMPLE)
    read = sample.decode("utf-8", errors="replace")
    other = sum(char > "\x7f" for char in read) - (wrong := read.count("\ufffd"))
    encoding = "CP1252"
    if other > wrong:
        what, command = "; the rest is, so the file is damaged", "iconv -c -f UTF-8 -t UTF-8"
    else:
        if sum(byte > 0x7F for byte in sample) > 0.2 * len(sample):  # no Western language
            from charset_normalizer import from_bytes

            guess = from_bytes(sample[:50_000]).best()
            encoding = guess.encoding.replace("_", "-").upper() if guess is not None else encoding
            encoding = "EUC-JP" if encoding.startswith("EUC-JI") else encoding  # the name that iconv takes
        what, command = f"; it looks like {encoding}", f"iconv -f {encoding} -t UTF-8"
    return _refusal(path, f"not UTF-8 at byte {byte} of the line{what}", command, f", line {line}")


def too_long(path: Path, line: int) -> UserError:
    """Return the error for a line that is too long to be a paragraph."""
    return _refusal(path, f"has more than {LONGEST:,} bytes, too many for a paragraph", BREAK, f", line {line}")


def _python(code: str, *modules: str) -> str:
    return shlex.join([sys.executable, "-X", "utf8", "-c", f"import {', '.join(sorted({'sys', *modules}))}; {code}"])


BREAK = _python(
    rf'[print(part) for line in sys.stdin for part in re.findall(r".{{1,{LINE}}}[.!?।؟۔]\s+|.{{1,{LINE}}}[。！？]|'
    rf'.{{1,{LINE}}}\s|.{{1,{LINE}}}", line)]',
    "re",
)


def command(path: Path, convert: str) -> str:
    """Return the hint that names the converted file and the command line that writes it."""
    names = (f"{path.stem[:50]}.plain{n or ''}.txt" for n in count())
    made = next(name for name in names if not Path(name).exists())
    return f"give {made}, which this makes: {convert} < {shlex.quote(str(path))} > {shlex.quote(made)}"


def _refusal(path: Path, what: str, convert: str, where: str = "") -> UserError:
    return UserError(f"{path}{where}: {what}", command(path, convert))


def _refuse_bytes(path: Path, sample: bytes) -> None:
    """Raise ``UserError`` for a file that is no text at all, or text of another encoding with NULs in it."""
    for beginning, (what, convert) in BY_BEGINNING.items():
        if re.match(beginning, sample):
            raise _refusal(path, f"{what}, not plain text", convert)
    if sample.startswith(b"PK\3\4"):
        raise _refusal(path, *_zipped(path))
    if sample.startswith((b"PAR1", b"ARROW1")):
        raise _refusal(path, *_columns(path, "parquet" if sample.startswith(b"PAR1") else "ipc"))
    if sample.count(0) > NUL_SHARE * len(sample):
        high, low = sample[::2].count(0), sample[1::2].count(0)
        if max(high, low) > 0.9 * (high + low):
            encoding = "UTF-16LE" if low > high else "UTF-16BE"
            raise _refusal(path, f"{encoding} without a byte order mark, not UTF-8", f"iconv -f {encoding} -t UTF-8")
        raise UserError(f"{path}: holds NULs, so it is no text", "give a text file in UTF-8")
    if len(sample) - len(sample.translate(None, CONTROLS)) > 0.01 * len(sample) or re.match(rb"\x80[\2-\5]", sample):
        raise UserError(f"{path}: holds control characters, so it is no text", "give a text file in UTF-8")


def _zipped(path: Path) -> tuple[str, str]:
    """Return what a zip file is, and the command that writes its text."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise UserError(f"{path}: a damaged zip archive ({error})", "fetch the file again") from None
    for member, form in (("word/document.xml", "docx"), ("content.xml", "odt"), ("META-INF/container.xml", "epub")):
        if member in names:
            return f"a document ({form}), not plain text", PANDOC.format(form)
    code = "z = zipfile.ZipFile(sys.stdin.buffer); [sys.stdout.buffer.write(z.read(n)) for n in z.namelist()]"
    return "a zip archive, not plain text", _python(code, "zipfile")


def _columns(path: Path, form: str) -> tuple[str, str]:
    """Return what a file of columns is, and the command that writes the column of text."""
    import polars as pl

    try:
        rows = (pl.scan_parquet(path) if form == "parquet" else pl.scan_ipc(path)).head(50).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UserError(f"{path}: a damaged {form} file ({str(error)[:100]})", "fetch the file again") from None
    sizes = {c: sum(map(len, rows[c].drop_nulls())) for c in rows.columns if rows[c].dtype == pl.String}
    if not sizes:
        raise UserError(f"{path}: a {form} file without a column of text", "give a text file in UTF-8")
    name = _column(sizes)
    code = f'[print(text + "\\n{END}") for text in polars.read_{form}(sys.stdin.buffer)[{json.dumps(name)}] if text]'
    return f"a {form} file, not plain text; its text is in the column {name}", _python(code, "polars")


def _column(sizes: dict[str, int]) -> str:
    """Return the column with the text: ``text`` where there is one, else that with most characters."""
    return "text" if "text" in sizes else max(sizes, key=lambda name: sizes[name])


def _refuse_markup(path: Path, text: str) -> None:
    """Raise ``UserError`` for JSON, HTML and XML."""
    if what := _json(text):
        sizes: Counter[str] = Counter()
        for name, value in re.findall(r'"(\w[^"\\\x00-\x1f]{0,99})"\s*:\s*"((?:[^"\\]|\\.)*)"', text):
            sizes[name] += len(value)
        name = _column(dict(sizes)) if sizes else ""
        named = name == "text" or sizes[name] > 0.5 * sizes.total()
        entries = f"objects | .[{json.dumps(name)}] | strings" if named else "strings"
        where = f"; its text is in {json.dumps(name)}" if named else ""
        code = shlex.quote(f'.. | {entries} | . + "\\n{END}"')
        raise _refusal(path, f"{what}, not plain text{where}", f"jq -r {code}")
    text = re.sub(r"(?s)\A(?:\s|<!--.*?-->)*", "", MARK.sub("", text)).strip()
    if re.match(r"(?i)<!doctype\s+html\b|<html\b", text):
        raise _refusal(path, "HTML, not plain text", PANDOC.format("html"))
    tag = re.match(r"<([\w:.-]+)[^<>]*>", text)
    lines = [line for line in text.split("\n") if line.strip()]
    tagged = sum(line.lstrip().startswith("<") for line in lines) > 0.5 * len(lines)
    rooted = tag is not None and tagged and re.search(rf"</{re.escape(tag[1])}\s*>$", text)
    if rooted and tag is not None and OF_PAGES.match(tag[1]):
        raise _refusal(path, "HTML, not plain text", PANDOC.format("html"))
    if rooted or re.match(r"(?i)<\?xml\b", text):
        code = r'print(html.unescape(re.sub("<[^>]*>", "", sys.stdin.read())))'
        raise _refusal(path, "XML, not plain text", _python(code, "html", "re"))


def _json(text: str) -> str | None:
    """Return which kind of JSON a text is, or the beginning of; ``None``: none."""
    if not re.match(r'\s*(?:\{\s*"|\[\s*["{\[])', text):
        return None
    if sum(map(_is_json, lines := [line for line in text.split("\n") if line.strip()][:20])) > 0.5 * len(lines) > 0.5:
        return "JSON lines"
    text = text.strip()
    try:
        end = json.JSONDecoder().raw_decode(text)[1]
    except json.JSONDecodeError as error:
        return "JSON" if error.pos > len(text) - 3 or error.msg.startswith("Unterminated") else None
    except RecursionError:
        return None
    return "JSON" if text[end:].lstrip()[:1] in ("", text[0]) else None


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict | list)
    except (ValueError, RecursionError):
        return False


def _refuse_tables(path: Path, text: str) -> None:
    """Raise ``UserError`` for a row of names, and rows of as many cells, which commas, semicolons or tabs part."""
    for mark, what in ((",", "CSV"), (";", "CSV"), ("\t", "tab-separated")):
        try:
            rows = [row for row in csv.reader(io.StringIO(text), delimiter=mark) if row]
        except csv.Error:
            continue
        names, *others = rows
        named = len(names) > 1 and all(re.fullmatch(r"\w[\w -]{0,38}\w|\w", name) for name in names)
        same = sum(len(row) == len(names) for row in others)
        if not named or len(others) < 3 or same < 0.98 * len(others):
            continue
        sizes = {name: sum(len(row[n]) for row in others if len(row) > n) for n, name in enumerate(names)}
        name = _column(sizes)
        code = (
            'csv.field_size_limit(sys.maxsize); sys.stdin.reconfigure(encoding="utf-8-sig"); '
            f'[print(row[{json.dumps(name)}] + "\\n{END}") for row in '
            f"csv.DictReader(sys.stdin, delimiter={json.dumps(mark)})]"
        )
        raise _refusal(path, f"{what}, not plain text; its text is in the column {name}", _python(code, "csv"))


def _refuse_wrapped(path: Path, text: str) -> None:
    """Raise ``UserError`` for paragraphs that are broken into lines of one width.

    Such a line has no room for the next line's first word, and it seldom ends as a sentence does.
    """
    lines = [line.rstrip() for line in text.split("\n")]
    widths = sorted(len(line) for line in lines if line)
    width = widths[int(0.97 * (len(widths) - 1))]
    pairs = [(line, after) for line, after in pairwise(lines) if line and after]
    if width not in WRAPPED or len(pairs) < 8:
        return
    full = [line for line, after in pairs if len(line) + 1 + min(len(after.split()[0]), width // 4) > width]
    ended = re.compile(rf"[.!?…;:；：{MARKS}][\"')\]”’»›」』）】》〉]*$")
    ends = sum(ended.search(line) is not None for line in full)
    if len(full) < 0.6 * len(pairs) or ends > 0.5 * len(full):
        return
    firsts = [after.lstrip(" \t\"'([“‘«„")[:1] for line, after in pairs if not ended.search(line)]
    if sum(map(str.isupper, firsts)) > 0.8 * len(firsts) and not text.isupper():  # as in verse
        return
    blank = " " if sum(" " in line.strip() for line in full) > 0.5 * len(full) else ""
    exactly = sum(abs(len(line) - width) < 2 for line, _ in pairs)
    if not blank and (exactly < 0.6 * len(pairs) or "".join(full).isascii()):  # sentences, base64 or DNA
        return
    code = (
        rf'print(re.sub(r"(?<=[^\n]{{{width * 2 // 3}}})[ \t]*\n[ \t]*(?=\S)(?![-*•] |\d+[.)] )", "{blank}", '
        r"textwrap.dedent(sys.stdin.read())))"
    )
    raise UserError(
        f"{path}: its lines are wrapped at {width} characters, and every line is read as a paragraph",
        command(path, _python(code, "re", "textwrap")) + "; or set corpus.segmenter: line, if lines are sentences",
    )
