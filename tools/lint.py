"""Check the rules of CONTRIBUTING.md that a machine can: on pages, docstrings and messages. ``make lint`` runs it.

Each fault is a line ``file: what``; the exit status is 1 if there is one.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = [DOCS / "commands.md", DOCS / "deviations.md", ROOT / "config" / "README.md"]
PAGES = [
    *(ROOT / name for name in ("README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md")),
    ROOT / "data" / "README.md",
    *(page for page in sorted(DOCS.glob("*.md")) if page not in GENERATED),
    *(DOCS / name for name in ("tutorial.ipynb", "tutorial-transformers.ipynb")),
]
FIRST = {"README.md", "index.md", "tutorial.ipynb", "tutorial-transformers.ipynb"}  # their sentences are short
LONGEST_SENTENCE, LONGEST_LINE, LONGEST_README = 30, 120, 80
# words of the paper that are everyday words too (a config key, memory in GB): a link at each would be noise
EVERYDAY = {
    "agreement",
    "baseline",
    "claim",
    "coefficient",
    "composition",
    "key",
    "memory",
    "pattern",
    "prefix",
    "value",
}
UNLINKED = {"paper.md", "CONTRIBUTING.md"}
PHRASES = {  # to avoid, and what to write
    "so that": "so, to, or two sentences",
    "so as": "to",
    "in order to": "to",
    "in place of": "instead of",
    "is to be": "must be",
    "are to be": "must be",
    "of others": "say whose",
    "what is found": "the result",
    "what was found": "the result",
    "what is made": "the output",
    "what was made": "the output",
    "otherwise than": "differently from",
    "without a word": "silently",
    "is told from": "differs from",
    "nor does": "it doesn't, in a sentence of its own",
    "where it has none": "if there is none",
    "by means of": "with",
    "due to the fact that": "because",
    "thereof": "repeat the noun",
    "therein": "repeat the noun",
    "whereby": "repeat the noun",
    "it is advisable": "tell the reader what to do",
    "utilize": "use",
    "utilise": "use",
    "please": "leave it out",
    "simply": "leave it out",
}
# a function's docstring opens with what it does, in the imperative; these words open a noun or a clause
NO_VERB = re.compile(r"(?:The|An?|What|Whose|Where|Which|Whether|Who|How|When|If|Each|Every|All|One|This|It|Its)\b")


# -- text ------------------------------------------------------------------------------------------------------------


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
    return re.sub(code, lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.MULTILINE)


def avoided(text: str) -> list[str]:
    """Return the phrases of ``PHRASES`` that a text uses."""
    plain = " ".join(prose(text).lower().split())
    return [phrase for phrase in PHRASES if re.search(rf"\b{re.escape(phrase)}\b", plain)]


def sentences(text: str) -> list[str]:
    """Return the sentences of a page's paragraphs and items, without its tables and headings."""
    plain = re.sub(r"^#.*$|^\|.*$", "", prose(text, rows=False), flags=re.MULTILINE)
    blocks = re.split(r"\n\s*\n|^\s*[-*] |^\s*\d+\. ", plain, flags=re.MULTILINE)
    return [" ".join(part.split()) for block in blocks for part in re.split(r"(?<=[.!?:])\s+", block) if part.strip()]


@cache
def terms() -> list[str]:
    """Return the terms of docs/paper.md, each a heading there."""
    return re.findall(r"^### (.+)$", (DOCS / "paper.md").read_text(encoding="utf-8"), re.MULTILINE)


def unlinked(text: str, term: str) -> bool:
    """Return whether a page uses a word, and first uses it without a link to where it is explained."""
    anchor = term.lower().replace(" ", "-")
    links = [match.span(1) for match in re.finditer(rf"\[([^\]]*)\]\([^)\s]*paper\.md#{anchor}\)", text)]
    labels = [match.span() for match in re.finditer(r"\[[^\]]*\]\([^)\s]*\)", text)]
    plain = re.sub(r"^#.*$", lambda heading: " " * len(heading[0]), prose(text), flags=re.MULTILINE)
    word = r"\s+".join(term.split()) + "s?" + (r"(?! pass)" if term == "Trigger" else "")
    for match in re.finditer(rf"\b{word}\b", plain, re.IGNORECASE):
        if any(a <= match.start() < b for a, b in links):
            return False
        if not any(a <= match.start() < b for a, b in labels):
            return True
    return False


# -- pages -----------------------------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as code hosts make them."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+)$", plain, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead to no file or heading here."""
    text = re.sub(r"`[^`\n]*`", "", read(page))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(read(file))):
            yield target


def faults_of_page(page: Path) -> Iterator[str]:
    """Yield the faults of a page."""
    text = read(page)
    yield from (f"{target} leads nowhere" for target in broken_links(page))
    if page == ROOT / "README.md" and text.count("\n") > LONGEST_README:
        yield f"more than {LONGEST_README} lines"
    plain = re.sub(r"^```[\s\S]*?^```|^ {4}.*$|^\|.*$", "", text, flags=re.MULTILINE)
    yield from (f"avoid {phrase!r}: {PHRASES[phrase]}" for phrase in avoided(text))
    yield from (f"{tag}: put it in code" for tag in re.findall(r"</?[a-z][^>]*>", prose(text), re.IGNORECASE))
    if page in GENERATED:
        return
    if page.name in FIRST:
        long = (sentence for sentence in sentences(text) if len(sentence.split()) > LONGEST_SENTENCE)
        yield from (f"more than {LONGEST_SENTENCE} words: {sentence}" for sentence in long)
    written = re.sub(r"<!-- [\w ':]*python docs/tools/[\s\S]*?<!-- end -->", "", plain)
    yield from (f"a long line: {line}" for line in written.splitlines() if len(line) > LONGEST_LINE)
    if page.name not in UNLINKED:
        first = (term for term in terms() if term.lower() not in EVERYDAY and unlinked(text, term))
        yield from (f"link {term!r} to paper.md where the page first uses it" for term in first)


def faults_of_terms() -> Iterator[str]:
    """Yield the terms of docs/paper.md to which no page links."""
    pages = "".join(read(page) for page in PAGES if page.name != "paper.md")
    unused = (term for term in terms() if f"paper.md#{term.lower().replace(' ', '-')})" not in pages)
    yield from (f"no page links to {term!r}" for term in unused)


# -- modules ---------------------------------------------------------------------------------------------------------


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield (node, docstring) of the module, its classes and its functions."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if text := ast.get_docstring(node):
            yield node, text


def literal(node: ast.AST) -> str:
    """Return the literal text of an expression: a string, an f-string, or some of them put together."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return " ".join(filter(None, map(literal, ast.iter_child_nodes(node))))


def messages(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of errors that users see; what a message inserts becomes ``…``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "UserError":
            yield from map(literal, node.args)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "hint":  # named before the error
            yield literal(node.value)


def is_verbless(node: ast.AST, text: str) -> bool:
    """Return whether a public function's docstring opens with a noun or a clause. A property may name what it is."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
        return False
    marks = {getattr(mark, "id", getattr(mark, "attr", "")) for mark in node.decorator_list}
    return not marks & {"property", "cached_property"} and bool(NO_VERB.match(text))


def faults_of_module(source: str) -> Iterator[str]:
    """Yield the faults of a module's docstrings and messages."""
    tree = ast.parse(source)
    for node, text in docstrings(tree):
        where = getattr(node, "name", "module")
        yield from (f"{where}: avoid {phrase!r}" for phrase in avoided(text))
        if is_verbless(node, text):
            yield f"{where} opens with {text.split()[0]!r}"
    yield from (f"message {text[:60]!r}: avoid {phrase!r}" for text in messages(tree) for phrase in avoided(text))


def faults() -> Iterator[str]:
    """Yield every fault with its file."""
    for page in [*PAGES, *GENERATED]:
        yield from (f"{page.relative_to(ROOT)}: {fault}" for fault in faults_of_page(page))
    yield from (f"docs/paper.md: {fault}" for fault in faults_of_terms())
    for module in sorted((ROOT / "src").rglob("*.py")):
        source = module.read_text(encoding="utf-8")
        yield from (f"{module.relative_to(ROOT)}: {fault}" for fault in faults_of_module(source))


def main() -> int:
    found = list(faults())
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
