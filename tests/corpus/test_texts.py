"""Sentences' texts are read back from the text files, and a text that changed since the run is refused."""

import polars as pl
import pytest

from ff_memories.base.errors import UserError
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.segment import rule
from ff_memories.corpus.text import moses, of_sentences, sentences


def test_a_sentences_text_keeps_what_is_no_plain_blank(tmp_path):
    """As the released code does, which splits lines at blanks alone."""
    path = tmp_path / "text.txt"
    path.write_text(" a\u00a0b  c\td . e   f \n", encoding="utf-8")
    rows = {"sentence": [0, 1], "split": ["train"] * 2, "file": [str(path)] * 2, "line": [1, 1], "first_token": [0, 5]}
    assert of_sentences(pl.DataFrame(rows | {"tokens": [5, 2]})) == {0: "a\u00a0b c\td .", 1: "e f"}


@pytest.fixture
def texts(tmp_path):
    """A text, and its ``sentences`` table as the run of a corpus makes it."""
    path = tmp_path / "text.txt"
    path.write_text("a b . c-d e .\n\nf g h . i j . k l m .\n", encoding="utf-8")

    def read(tokenize=None, most=None):
        words_ = Dictionary(["<s>", "<pad>", "</s>", "<unk>"])
        return sentences([path], words_, rule, 9, tokenize=tokenize, max_sentences=most).frame("train", 0)

    return path, read


@pytest.mark.parametrize("tokenize", [None, moses()], ids=["blanks", "moses"])
def test_a_run_that_ends_within_a_line_has_its_last_sentence_alone(texts, tokenize):
    _, read = texts
    every = ["a b .", "c-d e .", "f g h .", "i j .", "k l m ."]
    for most in range(1, 6):
        assert of_sentences(read(tokenize, most)) == dict(enumerate(every[:most]))


@pytest.mark.parametrize("tokenize", [None, moses()], ids=["blanks", "moses"])
@pytest.mark.parametrize(
    "change, line",
    [
        (lambda text: text.replace("b . c", "b x . c"), 1),
        (lambda text: text.replace("i j", "i"), 3),
        (lambda text: text.replace("c-d e .", ""), 1),
        (lambda text: text.split("\n")[0], 3),
        (lambda text: "\n" + text, 1),
        (lambda text: "", 1),
    ],
)
def test_a_text_that_changed_since_the_run_is_refused(texts, tokenize, change, line):
    path, read = texts
    table = read(tokenize)
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=rf"text\.txt, line {line}: changed since the run"):
        of_sentences(table)
