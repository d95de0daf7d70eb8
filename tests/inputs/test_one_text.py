"""One text, split into training and validation by document."""

import pytest

from ff_memories.base.errors import UserError
from ff_memories.inputs.one_text import FEWEST, SHARE, split

ARTICLES = "".join(
    f" = Title {i} = \n\n A sentence of {i}. \n\n = = Part {i} = = \n\n Another of {i}. \n\n" for i in range(40)
)
BLOCKS = "".join(f"A first line of {i}.\nA second line of {i}.\n\n" for i in range(40))
LINES = "".join(f"Line {i}.\n" for i in range(40))


def parts(tmp_path, text):
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "my.txt").write_text(text, encoding="utf-8")
    made = split(tmp_path / "my.txt", tmp_path / "made")
    return made, made.train.read_text(encoding="utf-8"), made.validation.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "by", "own"),
    [(ARTICLES, "articles", 4), (BLOCKS, "blocks between blank lines", 2), (LINES, "lines", 1)],
    ids=["articles", "blocks", "lines"],
)
def test_no_document_is_in_both_parts_and_no_line_is_lost(tmp_path, text, by, own):
    made, train, validation = parts(tmp_path, text)
    assert made.by == by and sum(made.documents) == 40
    whole = [line for line in text.splitlines() if line.strip()]
    for part, documents in zip((train, validation), made.documents, strict=True):
        lines = part.splitlines()
        assert lines == [line for line in whole if line in lines] and len(lines) >= own * documents
    assert sorted(train.splitlines() + validation.splitlines()) == sorted(whole)
    assert SHARE <= len(validation) / (len(train) + len(validation)) < SHARE + 0.05


def test_a_text_is_split_the_same_way_everywhere(tmp_path):
    (tmp_path / "other").mkdir()
    assert parts(tmp_path, BLOCKS)[1:] == parts(tmp_path / "other", BLOCKS)[1:]


def test_parts_of_another_text_stay(tmp_path):
    _, *kept = parts(tmp_path, LINES)
    with pytest.raises(UserError, match="is of another text"):
        parts(tmp_path, BLOCKS)
    assert parts(tmp_path, LINES)[1:] == tuple(kept)


def test_text_without_an_end_of_line_keeps_its_documents_apart(tmp_path):
    _, train, validation = parts(tmp_path, LINES.rstrip("\n"))
    assert train.endswith("\n") and validation.endswith("\n")


@pytest.mark.parametrize("text", ["\n \n", LINES[: 8 * (FEWEST - 1)], "One. " * 900], ids=["blank", "few", "one"])
def test_a_text_with_few_lines_is_refused(tmp_path, text):
    with pytest.raises(UserError, match="too short to be split"):
        parts(tmp_path, text)


def test_marks_part_documents_in_lines_and_between_them(tmp_path):
    stories = [f"Story {n} begins.\n\nStory {n} ends." for n in range(20)]
    for mark in ("<|endoftext|>", "\n<|endoftext|>\n"):
        made, train, validation = parts(tmp_path / str(len(mark)), mark.join(stories))
        assert sum(made.documents) == 20 and "<|" not in train + validation
        in_train, in_validation = ({line.split()[1] for line in part.splitlines()} for part in (train, validation))
        assert not in_train & in_validation
