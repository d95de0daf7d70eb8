"""Split one text into a training and a validation part, by document.

Documents are texts between marks such as ``<|endoftext|>``; else articles, if the text has WikiText headings of the
first level (`` = Title = ``); else blocks between blank lines; else lines. A seeded sample of whole documents becomes
the validation part, so no document is in both.
"""

import filecmp
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write
from ff_memories.corpus.text import BOUNDARY, lines

PLACE = Path("data/text")  # outside the results
SHARE = 0.1  # of the characters, for validation
FEWEST = 10  # documents
SEED = 1  # of every split, because runs with other seeds, and archives of runs, are of the same parts
TITLE = re.compile(r"^\s*=\s[^=].*\s=\s*$")
MARKED = "texts between marks of an end"
BY = {MARKED: None, "articles": TITLE, "blocks between blank lines": re.compile(r"^\s*$"), "lines": re.compile("")}


@dataclass(frozen=True)
class Split:
    """Where the parts of a text are, and how it was split."""

    train: Path
    validation: Path
    by: str  # what a document is, a key of ``BY``
    documents: tuple[int, int]  # how many are in each part

    def __str__(self) -> str:
        return (
            f"{self.by}: {self.documents[0]:,} for training ({self.train}), {self.documents[1]:,} drawn for "
            f"validation ({self.validation})"
        )


def split(text: Path, place: Path = PLACE) -> Split:
    """Write a text's training and validation parts; the same text gives the same bytes.

    Raises ``UserError`` where the file is missing, not UTF-8 or has too few documents, or another text's parts are
    there.
    """
    for by in BY:
        sizes = Counter[int]()  # characters of each document
        for document, line in _documents(text, by):
            sizes[document] += len(line)
        if len(sizes) >= FEWEST:
            break
    else:
        hint = "give a longer text, with a paragraph per line, or a text for each part with --train and --validation"
        raise UserError(f"{text}: too short to be split: a text needs {FEWEST} lines that are not blank", hint)
    chosen: set[int] = set()
    characters, wanted = 0, SHARE * sizes.total()
    for document in generator(SEED, "validation documents").permutation(len(sizes)).tolist():
        if characters >= wanted or len(chosen) == len(sizes) - 1:
            break
        chosen.add(document)
        characters += sizes[document]
    parts = [place / f"{text.stem}.{part}.txt" for part in ("train", "validation")]
    with atomic_write(parts[0]) as train, atomic_write(parts[1]) as validation:
        with train.open("w", encoding="utf-8") as first, validation.open("w", encoding="utf-8") as second:
            for document, line in _documents(text, by):
                (second if document in chosen else first).write(line)
        for part, written in zip(parts, (train, validation), strict=True):
            if part.is_file() and not filecmp.cmp(part, written, shallow=False):
                raise UserError(
                    f"{part}: is of another text, or of {text} before that changed; a run may need it",
                    f"rename {text}, or remove {part}",
                )
    return Split(parts[0], parts[1], by, (len(sizes) - len(chosen), len(chosen)))


def _documents(text: Path, by: str) -> Iterator[tuple[int, str]]:
    """Yield (document, line) of a text's lines that are not blank. What is before the first title is a document."""
    document, begun, begins = -1, False, BY[by]
    for _, line in lines(text):
        for number, part in enumerate(line.split(BOUNDARY)):
            begun = begun or (number > 0 if begins is None else begins.match(part) is not None)
            if part.strip():
                if begun or document < 0:
                    document, begun = document + 1, False
                yield document, part if part.endswith("\n") else f"{part}\n"
