"""The rules of docs/style.md that a machine can check, on the pages. The table of phrases there is the only one."""

import re

import pytest
from prose import AVOIDED, DOCS, avoided, prose, read, sentences
from running import ROOT

# These follow from the package: what they say is checked where it is written.
GENERATED = {"commands.md", "deviations.md", "steps.md"}
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "data/README.md", "annotations/demo/README.md")),
    *(page for page in sorted(DOCS.glob("*.md")) if page.name not in GENERATED),
    DOCS / "tutorial.ipynb",
    DOCS / "tutorial-transformers.ipynb",
]
SHORT, LONGEST_SENTENCE, LONGEST_LINE = (
    ("README.md", "start.md", "tutorial.ipynb", "tutorial-transformers.ipynb"),
    30,
    120,
)
# Numbers fill these pages; their paragraphs come from the checks as single lines.
MEASURED = {"benchmark.md", "forgeries.md", "gpu.md", "rehearsal.md"}
# Words of the paper that are everyday words too (a config key, memory in GB): a link at each would be noise.
EVERYDAY = {
    *("agreement", "baseline", "claim", "coefficient", "composition"),
    *("key", "memory", "pattern", "prefix", "value"),
}
UNLINKED = {*MEASURED, "words.md", "style.md", "index.md", "functions.md", "annotation.md"}


def terms() -> list[str]:
    """Return the words of docs/words.md, each a heading there."""
    return re.findall(r"^### (.+)$", (DOCS / "words.md").read_text(encoding="utf-8"), re.MULTILINE)


def unlinked(text: str, term: str) -> bool:
    """Say whether a page uses a word, and first uses it without a link to where it is explained."""
    anchor = term.lower().replace(" ", "-")
    links = [found.span(1) for found in re.finditer(rf"\[([^\]]*)\]\([^)\s]*words\.md#{anchor}\)", text)]
    labels = [found.span() for found in re.finditer(r"\[[^\]]*\]\([^)\s]*\)", text)]
    plain = re.sub(r"^#.*$", lambda heading: " " * len(heading[0]), prose(text), flags=re.MULTILINE)
    word = r"\s+".join(term.split()) + "s?" + (r"(?! pass)" if term == "Trigger" else "")
    for found in re.finditer(rf"\b{word}\b", plain, re.IGNORECASE):
        if any(a <= found.start() < b for a, b in links):
            return False
        if not any(a <= found.start() < b for a, b in labels):
            return True
    return False


def test_the_table_of_phrases_is_read():
    assert len(AVOIDED) > 20
    assert {"so that", "in order to"} <= set(AVOIDED)
    assert avoided("It runs so\nthat it ends.\n\n    so as to\n\n`in order to`") == ["so that"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_uses_no_phrase_that_the_style_page_avoids(page):
    text = read(page)
    if page.name == "style.md":  # its tables show them
        text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    assert not avoided(text)


def test_sentences_are_cut_at_points_colons_and_items():
    assert sentences("# T\n\nOne two. Three: four\n\n- five\n- six `a. b`\n\n| x | y |\n") == [
        "One two.", "Three:", "four", "five", "six",
    ]  # fmt: skip


@pytest.mark.parametrize("page", [page for page in PAGES if page.name in SHORT], ids=lambda page: page.parent.name)
def test_the_first_pages_keep_their_sentences_short(page):
    assert not [said for said in sentences(read(page)) if len(said.split()) > LONGEST_SENTENCE]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in MEASURED], ids=lambda page: page.name)
def test_lines_of_prose_fit_the_page(page):
    plain = re.sub(r"^```[\s\S]*?^```|^ {4}.*$|^\|.*$", "", read(page), flags=re.MULTILINE)
    assert not [line for line in plain.splitlines() if len(line) > LONGEST_LINE]


def test_a_word_without_a_link_is_found():
    assert unlinked("A shard is one.", "Shard")
    assert not unlinked("A [shard](words.md#shard) is one. A shard.", "Shard")
    assert unlinked("Two shards. A [shard](words.md#shard).", "Shard")
    assert not unlinked("# Shards\n\n`shard` and [shards](cluster.md)", "Shard")


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in UNLINKED], ids=lambda page: page.name)
def test_a_term_is_linked_where_a_page_first_uses_it(page):
    text = read(page)
    assert not [term for term in terms() if term.lower() not in EVERYDAY and unlinked(text, term)]


def test_every_term_is_linked_from_some_page():
    pages = "".join(read(page) for page in PAGES if page.name != "words.md")
    assert not [term for term in terms() if f"words.md#{term.lower().replace(' ', '-')})" not in pages]


@pytest.mark.parametrize("page", [*PAGES, *(DOCS / name for name in sorted(GENERATED)), ROOT / "config" / "README.md"],
                         ids=lambda page: page.name)  # fmt: skip
def test_no_text_is_lost_as_a_tag(page):
    assert not re.findall(r"</?[a-z][^>]*>", prose(read(page)), re.IGNORECASE), "`<name>` belongs in code"


def test_the_readme_fits_two_screens():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90
