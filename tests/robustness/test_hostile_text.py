"""Text made to do harm: no cell of it is a formula, and it is read in bounded sentences."""

import pytest

from ff_memories.base.errors import UserError
from ff_memories.base.text import cell
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.segment import rule
from ff_memories.corpus.text import sentences

pytestmark = pytest.mark.more


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
