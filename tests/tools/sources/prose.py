"""What docs/style.md says of wording, for the tests: its table of phrases, and a page's prose and sentences."""

import json
import re
from pathlib import Path

from running import ROOT

DOCS = ROOT / "docs"


def read(page: Path) -> str:
    """Return a page's Markdown; of a notebook, that of its Markdown cells."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        return "\n\n".join("".join(cell) for cell in cells)
    return text


def prose(text: str, rows: bool = True) -> str:
    """Return a page without code, links' targets and comments; ``rows``: with tables. Lines stay where they are."""
    code = r"^```[\s\S]*?^```|^ {4}.*$|``.*?``|`[^`]*`|<!--[\s\S]*?-->|\]\([^)\s]*\)" + ("" if rows else r"|^\|.*$")
    return re.sub(code, lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.MULTILINE)


def phrases(style: str) -> list[str]:
    """Return the phrases that the style page's table says to avoid."""
    table = style.partition("| Avoid | Write |")[2].partition("\n\n")[0]
    return [phrase.strip() for row in table.splitlines()[2:] for phrase in row.split("|")[1].split(",")]


AVOIDED = phrases((DOCS / "style.md").read_text(encoding="utf-8"))


def avoided(text: str) -> list[str]:
    """Return the phrases of a text that the style page says to avoid."""
    plain = " ".join(prose(text).lower().split())
    return [phrase for phrase in AVOIDED if re.search(rf"\b{re.escape(phrase)}\b", plain)]


def sentences(text: str) -> list[str]:
    """Return the sentences of a page's paragraphs and items, without its tables and headings."""
    plain = re.sub(r"^#.*$|^\|.*$", "", prose(text, rows=False), flags=re.MULTILINE)
    blocks = re.split(r"\n\s*\n|^\s*[-*] |^\s*\d+\. ", plain, flags=re.MULTILINE)
    return [" ".join(part.split()) for block in blocks for part in re.split(r"(?<=[.!?:])\s+", block) if part.strip()]
