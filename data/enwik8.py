"""Paragraphs of plain text from enwik8, the first 100 MB of the English Wikipedia of March 2006 as XML.

The parser of wikitext is `mwparserfromhell`. What stays is prose: paragraphs of at least ten words that end like a
sentence. Headings, lists, tables, images, footnotes, formulas, templates, comments and other languages' links are
dropped, and so are redirects and pages that are no articles. The parts are those of the literature (the first 90 % of
the bytes, the next 5 %, the last 5 %), cut where the next page begins. In each, paragraphs stand in an order drawn with
a seed: any number of them from the start is a random sample.
"""

import hashlib
import html
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError, with_extra
from ff_memories.base.files import write_json, write_whole
from ff_memories.base.progress import Progress
from ff_memories.inputs.registry import Source

SEED = 1
ENDS = {"train": 0.9, "validation": 0.95, "test": 1.0}  # of the bytes
PAGE = re.compile(
    rb"<page>\s*<title>(.*?)</title>.*?<text xml:space=\"preserve\">(.*?)</text>\s*</revision>\s*</page>", re.S
)
NAMESPACE = re.compile(rb"<namespace key=\"-?\d+\">(.*?)</namespace>")
DROPPED = {"table", "ref", "references", "gallery", "math", "timeline", "div", "imagemap", "pre", "center"}
LISTED = {"li", "dt", "dd"}
LIST = "\0"  # begins a line of a list
OTHER = re.compile(r"\s*:?([A-Za-z-]+):")  # an image, a category, or another language's page
MARKUP = re.compile(r"\[\[|\]\]|\{\{|\}\}|\{\||\|\}|<[a-zA-Z/!]|https?://|__[A-Z]+__|\|")
PROSE = re.compile(r".*[.!?][\"'”’)]*")
FEWEST = 10  # words


def make(path: Path, source: Source) -> None:
    """Write the texts of a source from its file, and beside them counts.json: what was kept and what was dropped."""
    raw, counts = path.read_bytes(), Counter[str]()
    spaces = {html.unescape(name.decode()).lower() for name in NAMESPACE.findall(raw[:10_000])}
    texts: dict[str, dict[str, None]] = {split: {} for split in ENDS}
    pages = [match.start() for match in re.finditer(rb"<page>", raw)] + [len(raw)]
    with Progress(len(raw), "bytes", "enwik8") as bar:
        for begin, end in pairwise(pages):
            split = next(split for split, share in ENDS.items() if begin < share * len(raw))
            of_page = list(_paragraphs(raw[begin:end], spaces, counts))
            counts["paragraphs that stand there already"] += sum(text in texts[split] for text in of_page)
            texts[split].update(dict.fromkeys(of_page))
            bar.step(end - begin)
    for split, paragraphs in texts.items():
        if split in source.files:
            order = sorted(paragraphs, key=lambda text: hashlib.sha256(f"{SEED} {text}".encode()).digest())
            write_whole(source.path(split), "".join(f"{text}\n" for text in order))
            counts[f"paragraphs in {split}"] = len(order)
    sorted_counts = dict(sorted(counts.items()))
    write_json(Path(source.folder) / "counts.json", sorted_counts)
    print("enwik8: " + ", ".join(f"{n:,} {what}" for what, n in sorted_counts.items()), file=sys.stderr)


def _paragraphs(page: bytes, spaces: set[str], counts: Counter[str]) -> Iterator[str]:
    """Yield a page's paragraphs, and count what is left out."""
    if (match := PAGE.match(page)) is None:
        counts["pages that the file's end cuts"] += 1
        return
    title, text = (html.unescape(part.decode("utf-8", errors="replace")) for part in match.groups())
    if title.partition(":")[0].lower() in spaces and ":" in title:
        counts["pages that are no articles"] += 1
    elif text.lstrip()[:9].upper() == "#REDIRECT":
        counts["redirects"] += 1
    else:
        counts["articles"] += 1
        for line in plain(text).split("\n"):
            line = " ".join(line.split())
            kind = (
                None
                if not line
                else "lines of lists"
                if LIST in line
                else "lines that are no prose"
                if len(line.split()) < FEWEST or not PROSE.fullmatch(line)
                else "paragraphs with markup left in them"
                if MARKUP.search(line)
                else ""
            )
            if kind:
                counts[kind] += 1
            elif kind == "":
                yield line


def plain(wikitext: str) -> str:
    """Return the text of wikitext; what is no text is dropped, and lines of lists begin with ``LIST``."""
    try:
        import mwparserfromhell as parser
    except ImportError:
        raise UserError("enwik8: needs the extra wikipedia, which is not installed", with_extra("wikipedia")) from None
    return "".join(_text(node, parser.nodes) for node in parser.parse(wikitext).nodes)


def _text(node: Any, kinds: Any) -> str:
    """Return the text of one node of a parsed page."""
    if isinstance(node, kinds.Text):
        return str(node)
    if isinstance(node, kinds.Wikilink):
        return "" if OTHER.match(str(node.title)) else _inside(node.title if node.text is None else node.text, kinds)
    if isinstance(node, kinds.ExternalLink):
        return "" if node.title is None else _inside(node.title, kinds)
    if isinstance(node, kinds.HTMLEntity):
        return str(node.normalize())
    if isinstance(node, kinds.Heading):
        return "\n"
    if not isinstance(node, kinds.Tag):
        return ""  # a template, a comment, an argument
    name = str(node.tag).strip().lower()
    if name in DROPPED:
        return ""
    if name in LISTED and node.self_closing:
        return LIST
    return "\n" if name == "br" else "" if node.contents is None else _inside(node.contents, kinds)


def _inside(code: Any, kinds: Any) -> str:
    return "".join(_text(node, kinds) for node in code.nodes)
