"""Text made to do harm, as words of the model's dictionary: it comes through the whole run as text and nothing else."""

import csv
import io
import json
import re
from html.parser import HTMLParser

import pytest
from factories import write_dictionary
from planted_run import TYPES, prepare
from running import snakemake

from ff_memories.base.errors import UserError
from ff_memories.base.text import cell, escape_invisible, latex
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.segment import rule
from ff_memories.corpus.text import sentences

pytestmark = pytest.mark.more

# every word of the planted model, as somebody else would have it
HARMFUL = dict(
    zip(
        TYPES[1:],
        [
            "<script>alert(1)</script>",
            "\u202etxt.exe",
            "</script><img/src=x/onerror=alert(1)>",
            "=cmd|'/c'!A1",
            "\\write18{touch_ran}",
            "{{7*7}}{%raw%}",
            "\x00nul\x1b[2J",
            "@SUM(A1)",
            "javascript:alert(1)",
            '"onmouseover="alert(1)',
            "+1\\\\",
            "\u2066-1\u2069",
            "]]>--><!--&lt;",
            "`${alert(1)}`$&%#_^~",
        ],
        strict=True,
    )
)


@pytest.fixture(scope="module")
def harmed(tmp_path_factory):
    """The whole planted run, sheets for annotators and gallery included, on harmful words."""
    folder = tmp_path_factory.mktemp("harmed")
    prepare(folder)
    write_dictionary(folder / "dict.txt", [HARMFUL.get(word, word) for word in TYPES])
    for name in ("train.txt", "validation.txt"):
        lines = (folder / name).read_text(encoding="utf-8").split("\n")
        lines = [" ".join(HARMFUL.get(word, word) for word in line.split(" ")) for line in lines]
        (folder / name).write_text("\n".join(lines), encoding="utf-8", newline="\n")
    snakemake(folder, "--", "all", "annotation")
    return folder / "results" / "planted"


class Elements(HTMLParser):
    """All elements of a page with their attributes, and the text outside of scripts."""

    def __init__(self, page):
        super().__init__()
        self.found, self.text, self.scripts, self.inside = [], "", [], None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self.inside = tag if tag in ("script", "style") else None
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside is None:
            self.text += data


@pytest.mark.long
def test_no_page_holds_an_element_that_a_word_made(harmed):
    pages = sorted(harmed.rglob("*.html"))
    assert len(pages) > 14
    shown = ""
    for path in pages:
        page = Elements(path.read_text(encoding="utf-8"))
        for tag, attributes in page.found:
            assert not [name for name in attributes if name.startswith("on")], (path, tag)
            assert not re.match(r"\s*javascript:", attributes.get("href") or ""), path
            assert attributes.get("src") != "x", path
        assert not [script for script in page.scripts if script.strip() == "alert(1)"], path
        assert not re.search(r"[\x00\x1b\u202e\u2066\u2069]", page.text), path
        shown += page.text
    for word in HARMFUL.values():
        assert escape_invisible(word) in shown, word
    assert "49" not in re.findall(r"\S*raw\S*", shown)


@pytest.mark.long
def test_what_scripts_read_is_data(harmed):
    read = [*(harmed / "gallery" / "data").rglob("*.js"), *harmed.rglob("*.json")]
    assert {path.suffix for path in read} == {".js", ".json"}
    for path in read:
        text = path.read_text(encoding="utf-8")
        assert not re.search("[\x00\x1b\u202e\u2066\u2069]", text), path
        if path.suffix == ".js":
            assert re.fullmatch(r'(part\("[\w/.-]+","[\w+/=]*"\);\n)+', text), path
        else:
            json.loads(text)
    for path in (harmed / "sheets").glob("*.html"):
        *_, data = [s for s in Elements(path.read_text(encoding="utf-8")).scripts if s.startswith("{")]
        assert not re.search("[\x00\x1b\u202e\u2066\u2069]", str(json.loads(data))), path


@pytest.mark.long
def test_no_cell_is_a_formula(harmed):
    seen = 0
    for path in harmed.rglob("*.csv"):
        text = path.read_text(encoding="utf-8")
        assert not re.search("[\x00\x1b\u202e\u2066\u2069]", text), path
        for row in csv.reader(io.StringIO(text)):
            for value in row:
                formula = value.lstrip()[:1] in ("=", "+", "-", "@")
                assert not formula or re.fullmatch(r"-\d+(\.\d+)?(e-?\d+)?", value), (path, value)
                seen += "cmd|" in value
    assert seen


@pytest.mark.long
def test_no_latex_holds_a_command_that_a_word_made(harmed):
    allowed = {
        *("begin", "end", "toprule", "midrule", "bottomrule", "textbf", "mathbf", "dots", "linewidth", "multicolumn"),
        *("usepackage", "raggedright", "arraybackslash"),
    }
    allowed |= {re.match(r"\\(\w+)", made)[1] for made in map(latex, map(chr, range(32, 127))) if made[1:2].isalpha()}
    found = sorted(harmed.rglob("*.tex"))
    assert [path.stem for path in found] == ["claims", "table1", "table2", "table3"]
    for path in found:
        text = path.read_text(encoding="utf-8")
        commands = set(re.findall(r"\\([A-Za-z]+)", text))
        assert "write" not in commands and "input" not in commands
        if path.name.startswith("table"):
            assert commands <= allowed, (path, commands - allowed)
        assert balanced(text), path


def balanced(text):
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text.replace(r"\\", "")):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


@pytest.mark.parametrize(
    "start", [*"=+-@", "\t=", "\r=", "\n=", " =", "\u00a0=", "\ufeff=", "\u200b=", "＝", "＋", "－", "＠"]
)
def test_a_cell_that_a_spreadsheet_could_take_for_a_formula_is_text(start):
    made = cell(f"{start}1+1")
    assert not made.lstrip().startswith((*"=+-@\t\r\n", "＝", "＋", "－", "＠"))
    assert made.replace("'", "").endswith("1+1")


# -- reading -----------------------------------------------------------------------------------------------------------

LISTED = Dictionary(["a", "b", ".", "\x00", "\u202e"])


def read(tmp_path, content, **options):
    (tmp_path / "text.txt").write_bytes(content)
    return sentences([tmp_path / "text.txt"], LISTED, rule, options.pop("max_tokens", 100), **options)


def test_controls_are_tokens_like_others_and_line_ends_are_not(tmp_path):
    got = read(tmp_path, "\x00 a\x00b \u202e .\r\na .\rb .\n".encode())
    ids = LISTED.encode
    assert list(got.tokens) == [*ids(["\x00", "?", "\u202e", "."]), *ids(["a", ".", "b", "."])]
    assert list(got.offsets) == [0, 4, 6, 8]


def test_a_line_of_a_megabyte_is_cut_into_sentences(tmp_path):
    got = read(tmp_path, b"a b . " * 200_000)
    assert len(got) == 200_000 and got.line[-1] == 1 and got.first_token[-1] == 599_997
    with pytest.raises(UserError, match="the sentence has 600000 tokens, but the model takes at most 100") as error:
        read(tmp_path, b"a " * 600_000)
    assert len(str(error.value)) < 500
    assert len(read(tmp_path, b"a " * 600_000, too_long="split")) == 6000
