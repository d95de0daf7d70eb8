"""Sampled prefixes as a file: JSON lines with a sentence's ``text`` and a prefix length in tokens, ``random_pos``.

The names are those of the released code's data frames, which record its random sample.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from pydantic import BaseModel, Field

from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.corpus.text import lines

FORM = '{"text": "But when bees and wasps resemble each other .", "random_pos": 6}'


def read(path: Path, texts: dict[int, str], lengths: np.ndarray) -> pl.DataFrame:
    """Return a file's prefixes, in its order: ``example``, ``sentence``, ``position``.

    If several sentences have the same text, lines with it refer to them in turn. ``lengths``: (sentences,) tokens of
    each. Raises ``UserError`` where a line has another form, no sentence has its text, or its position is not in 0..N.
    """
    numbers: dict[str, list[int]] = {}
    for number, text in texts.items():
        numbers.setdefault(" ".join(text.split()), []).append(number)
    turns: dict[str, int] = {}
    rows = []
    for line, text, position in records(path):
        same = numbers.get(text)
        if same is None:
            hint = "use the text that the sample was drawn from, one sentence per line, with corpus.segmenter: line"
            raise UserError(f"{path}, line {line}: no validation sentence has the text {text!r}", hint)
        turn = turns[text] = turns.get(text, -1) + 1
        sentence = same[turn % len(same)]
        if position > lengths[sentence]:
            what = f"random_pos is {position}, but the sentence has {lengths[sentence]} tokens"
            hint = "check corpus.tokenizer: positions count the tokens that the model reads"
            raise UserError(f"{path}, line {line}: {what}", hint)
        rows.append((sentence, position))
    sentences, positions = zip(*rows, strict=True)
    return pl.DataFrame({"example": np.arange(len(rows)), "sentence": sentences, "position": positions})


class Sampled(BaseModel):
    """A line of such a file."""

    text: str
    random_pos: int = Field(ge=0)


def records(path: Path) -> Iterator[tuple[int, str, int]]:
    """Yield (line number, text, position) of a file's lines. Raises ``UserError`` for another form, or no line."""
    hint, empty = f"write lines such as {FORM}", True
    for number, content in lines(path):
        if content.strip():
            record = foreign.json_of(content, f"{path}, line {number}", Sampled, hint, text=True)
            yield number, " ".join(record.text.split()), record.random_pos
            empty = False
    if empty:
        raise UserError(f"{path}: the sample is empty", hint)
