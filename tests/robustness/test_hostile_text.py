"""Text made to do harm: no cell of it is a formula, and its controls are tokens like others."""

import pytest

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


def test_controls_are_tokens_like_others_and_line_ends_are_not(tmp_path):
    (tmp_path / "text.txt").write_bytes("\x00 a\x00b \u202e .\r\na .\rb .\n".encode())
    got = sentences([tmp_path / "text.txt"], LISTED, rule, 100)
    ids = LISTED.encode
    assert list(got.tokens) == [*ids(["\x00", "?", "\u202e", "."]), *ids(["a", ".", "b", "."])]
    assert list(got.offsets) == [0, 4, 6, 8]
