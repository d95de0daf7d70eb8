"""Sampled prefixes as a file: JSON lines with a sentence's ``text`` and a prefix length in tokens, ``random_pos``.

The names are those of the released code's data frames, which record its random sample.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

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
            raise UserError(
                f"{path}, line {line}: no validation sentence has the text {text!r}",
                "use the validation text that the sample was drawn from, one sentence per line, with "
                "corpus.segmenter: line",
            )
        turn = turns[text] = turns.get(text, -1) + 1
        sentence = same[turn % len(same)]
        if position > lengths[sentence]:
            raise UserError(
                f"{path}, line {line}: random_pos is {position}, but the sentence has {lengths[sentence]} tokens",
                "check corpus.tokenizer: positions count the tokens that the model reads",
            )
        rows.append((sentence, position))
    sentences, positions = zip(*rows, strict=True)
    return pl.DataFrame({"example": np.arange(len(rows)), "sentence": sentences, "position": positions})


def records(path: Path) -> Iterator[tuple[int, str, int]]:
    empty = True
    for number, content in lines(path):
        if not content.strip():
            continue
        try:
            record = foreign.json_of(content, str(path), dict[str, Any], text=True)
            text, position = record["text"], record["random_pos"]
        except (UserError, KeyError):
            text = position = None
        if not isinstance(text, str) or type(position) is not int:
            raise UserError(f"{path}, line {number}: expected `text` and `random_pos`", f"write lines such as {FORM}")
        if position < 0:
            raise UserError(f"{path}, line {number}: random_pos is {position}, but a prefix has 0 tokens or more")
        yield number, " ".join(text.split()), position
        empty = False
    if empty:
        raise UserError(f"{path}: the sample is empty", f"write lines such as {FORM}")
