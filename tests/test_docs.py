"""The documentation: generated pages follow from the package, links lead somewhere, and the index names all pages."""

import json
import re

import pytest
from conftest import ROOT

from ff_memories.cli import main
from ff_memories.guide import readme, steps

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "config" / "README.md"]


def headings(text):
    """The anchors of a page's headings, as code hosts make them."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ +(.+)$", plain, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_internal_links_lead_somewhere(page):
    text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor in headings(file.read_text(encoding="utf-8")), f"{page.name}: {target}"


def test_every_page_is_named_in_the_index_or_the_readme():
    said = "".join((ROOT / page).read_text(encoding="utf-8") for page in ("docs/index.md", "README.md"))
    assert not [page.name for page in PAGES[1:-1] if page.name != "index.md" and page.name not in said]


def test_the_steps_page_follows_from_the_package():
    assert (ROOT / "docs" / "steps.md").read_text(encoding="utf-8") == steps.page()


def test_the_readme_says_what_the_demo_came_to():
    with pytest.raises(SystemExit) as end:
        main(["readme", "--readme", str(ROOT / "README.md"), "--check"])
    assert not end.value.code


def test_the_line_of_verdicts_is_counted_and_a_readme_without_its_place_refused():
    claims = {"K1": {"verdict": "holds"}, "K2": {"verdict": "fails"}, "K3": {"verdict": "holds"}}
    known = readme.facts(claims, "demo", "surrogate")
    assert readme.badge(json.loads(json.dumps(known))) == "**demo (surrogate): 2 hold, 1 fail**"
    text = f"a\n{readme.BEGIN}\nold\n{readme.END}\nb"
    assert readme.renewed(text, known) == f"a\n{readme.BEGIN}\n{readme.badge(known)}\n{readme.END}\nb"
    with pytest.raises(ValueError, match="there is no"):
        readme.renewed("a", known)
