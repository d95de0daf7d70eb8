"""Sentences of token ids, each with its place in the text files."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl


@dataclass
class Sentences:
    """The sentences of one split: flat token ids, the start of each sentence, and its place in the files.

    ``begins`` has a 1 for each token that begins a word; it is empty where tokens are words. ``inside`` has, of each
    sentence that begins or ends inside a word, how many characters of that word are before it, and its own number.
    """

    tokens: "array[int]" = field(default_factory=lambda: array("i"))
    offsets: "array[int]" = field(default_factory=lambda: array("q", [0]))
    begins: "array[int]" = field(default_factory=lambda: array("b"))
    file: list[str] = field(default_factory=list)
    line: "array[int]" = field(default_factory=lambda: array("I"))
    first_token: "array[int]" = field(default_factory=lambda: array("I"))
    inside: dict[int, tuple[int, int]] = field(default_factory=dict)
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("paragraphs", "headings_dropped", "sentences_split", "tokens", "tokens_unknown", "tokens_pad"), 0
        )
    )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def add(self, ids: list[int], file: str, line: int, first_token: int, begins: Sequence[bool] = ()) -> None:
        self.tokens.extend(ids)
        self.begins.extend(begins)
        self.offsets.append(len(self.tokens))
        self.file.append(file)
        self.line.append(line)
        self.first_token.append(first_token)

    def frame(self, split: str, first_sentence: int) -> pl.DataFrame:
        """Return the split's rows of the ``sentences`` table, numbered from ``first_sentence``."""
        lengths = np.diff(np.frombuffer(self.offsets, dtype=np.int64))
        frame = pl.DataFrame(
            {
                "sentence": np.arange(first_sentence, first_sentence + len(self), dtype=np.uint32),
                "split": [split] * len(self),
                "file": self.file,
                "line": np.array(self.line, dtype=np.uint32),
                "first_token": np.array(self.first_token, dtype=np.uint32),
                "tokens": lengths,
            }
        )
        if self.inside:
            spans = [self.inside.get(number, (None, None)) for number in range(len(self))]
            columns = {"first_character": pl.UInt32, "characters": pl.UInt32}
            frame = frame.hstack(pl.DataFrame(spans, schema=columns, orient="row"))
        return frame
