"""The demo corpus: prose from the documentation strings of pinned packages, read from their sources.

The sources are parsed, never imported, and the text stays on the machine that built it. A hash of each file's name
assigns the whole file to train or validation, so no docstring is split between the two.
"""

import ast
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path

from ff_memories.base.errors import UserError, with_extra

# The Python sources of these releases are the same on every platform; constraints.txt pins them.
PACKAGES = {"networkx": "3.6.1", "numpy": "2.4.6", "scipy": "1.17.1", "sympy": "1.14.0"}
VALIDATION_SHARE = 0.075
MIN_WORDS = 8  # a shorter paragraph is a label, not prose
MIN_PROSE = 0.7  # share of plain words and punctuation among the tokens; below it, it is a formula or a listing

_UNDERLINE = re.compile(r"^([=\-~^\"'`#*+_.:])\1{2,}$")
_TABLE = re.compile(r"^[=\-+|\s]*(={2,}|-{2,}|\+-)[=\-+|\s]*$")
_ROLE = re.compile(r":[\w.+-]+(?::[\w.+-]+)?:`~?([^`<]*?)(?:\s*<[^`>]*>)?`")
_FOOTNOTE = re.compile(r"\[[#\w]+\]_|\|[\w ]+\||https?://\S+|<[^<>\s]+>`?_{0,2}")
_TOKEN = re.compile(
    r"(?:[A-Za-z]\.){2,}|@-@|\d+(?:\.\d+)+|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+"  # i.e. / @-@ / 1.20 / numpy.linalg
    r"|\w+(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\w+|\.\.\.|[^\w\s]"
)
_BLANK_BEFORE_MARK = re.compile(r" +(?=[.,;:!?)\]])")
_HYPHEN = re.compile(r"(?<=\w)-(?=\w)")
_WORD = re.compile(r"[A-Za-z]+")


def docstrings(source: str) -> Iterator[str]:
    """Yield the cleaned docstring of a module and of every class and function in it, in source order."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, holders) and (text := ast.get_docstring(node)):
            yield text


def paragraphs(docstring: str) -> Iterator[str]:
    """Yield the prose paragraphs of a reStructuredText docstring, each on one line, without markup."""
    lines, directive = [], None
    for line in docstring.splitlines():
        indent = len(line) - len(line.lstrip())
        if directive is not None and (not line.strip() or indent > directive):
            continue
        directive = None
        text = line.strip()
        if text.startswith(".. ") or text == "::":
            directive, text = indent, ""
        elif text.endswith("::"):
            directive, text = indent, text[:-1]
            lines.append((indent, text))
            text = ""
        lines.append((indent, text))
    block: list[str] = []
    level = None
    for indent, text in [*lines, (0, "")]:
        if text and block and indent != level:  # a definition list: term and body are separate
            yield " ".join(block)
            block = []
        if text:
            block, level = [*block, text], indent
        elif block:
            if not any(_UNDERLINE.match(t) or _TABLE.match(t) or t.startswith((">>>", "...")) for t in block):
                yield " ".join(block)
            block = []


def without_markup(paragraph: str) -> str:
    """Return a paragraph without roles, footnotes, links and emphasis."""
    text = _FOOTNOTE.sub(" ", _ROLE.sub(r"\1", paragraph))
    return text.translate(str.maketrans("`*\\", "   "))


def tokens(text: str) -> list[str]:
    """Split prose into words and punctuation marks, WikiText's way ("do n't", "numpy 's", "non @-@ zero")."""
    return _TOKEN.findall(_HYPHEN.sub(" @-@ ", text))


def raw(text: str) -> str:
    """Return prose as people write it: one blank between words, none before a mark."""
    return _BLANK_BEFORE_MARK.sub("", " ".join(text.split()))


def is_prose(words: list[str]) -> bool:
    """Return whether a paragraph is prose, by its number and share of plain words."""
    plain = sum((bool(_WORD.fullmatch(w)) and len(w) > 1) or w in {"a", "A", "I"} for w in words)
    marks = sum(w in {",", ".", ";", ":", "(", ")", '"', "n't", "'s", "@-@"} for w in words)
    return plain >= MIN_WORDS and (plain + marks) >= MIN_PROSE * len(words) and plain >= 0.5 * len(words)


def sources(package: str, version: str) -> list[tuple[str, Path]]:
    """Return (name, path) of every Python file that the installed release of ``package`` ships, sorted.

    Raises ``UserError`` if another release, or none, is installed: the text would differ.
    """
    hint = with_extra("demo")
    try:
        dist = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        raise UserError(f"the demo corpus needs {package} {version}, which is not installed", hint) from None
    if dist.version != version:
        raise UserError(f"the demo corpus needs {package} {version}, found {dist.version}", hint)
    # tests contain no prose; the other two differ between machines and Python versions
    skipped = {"tests", "__config__.py", "distutils"}
    files = [f for f in dist.files or [] if f.suffix == ".py" and f.parts[0] == package and not skipped & set(f.parts)]
    return [(f.as_posix(), Path(str(dist.locate_file(f)))) for f in sorted(files, key=lambda f: f.as_posix())]


def split_of(name: str) -> str:
    """Return the split of a source file, train or validation, by a hash of its name."""
    draw = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") / 2**32
    return "validation" if draw < VALIDATION_SHARE else "train"


def prose(path: Path) -> list[tuple[str, str]]:
    """Return the prose paragraphs of a source file: (tokens with blanks between them, raw text)."""
    texts = (without_markup(text) for doc in docstrings(path.read_text(encoding="utf-8")) for text in paragraphs(doc))
    return [(" ".join(words), raw(text)) for text in texts if is_prose(words := tokens(text))]


def build(read: Callable[[list[Path]], Iterable[list[tuple[str, str]]]]) -> dict[str, list[tuple[str, str]]]:
    """Return ``{"train": [...], "validation": [...]}``: (tokenised, raw) paragraphs, each tokenised one once.

    ``read``: returns the ``prose`` of source files, in their order.
    """
    files = [file for package, version in PACKAGES.items() for file in sources(package, version)]
    kept: set[str] = set()
    out: dict[str, list[tuple[str, str]]] = {"train": [], "validation": []}
    for (name, _), texts in zip(files, read([path for _, path in files]), strict=True):
        for tokenised, text in texts:
            if tokenised not in kept:
                kept.add(tokenised)
                out[split_of(name)].append((tokenised, text))
    return out
