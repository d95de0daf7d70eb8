"""Sentences as text again, from the files they came from: tables hold no text."""

import re
from itertools import pairwise
from pathlib import Path

import polars as pl

from ff_memories.corpus.text import lines


def of_sentences(sentences: pl.DataFrame) -> dict[int, str]:
    """Return every sentence's text as it stands in the text files, runs of blanks as one: {sentence number: text}.

    Args:
        sentences: the ``sentences`` table, or the rows that are wanted and those that follow them on their lines.
    """
    out = {}
    for (_, file), rows in sentences.sort("sentence").group_by("split", "file", maintain_order=True):
        wanted: dict[int, list[tuple[int, int]]] = {}
        for number, line, first in rows.select("sentence", "line", "first_token").iter_rows():
            wanted.setdefault(line, []).append((first, number))
        for line, content in lines(Path(file)):
            if starts := wanted.get(line):
                words = list(re.finditer(r"\S+", content))
                bounds = [*sorted({first for first, _ in starts}), len(words)]
                end = dict(pairwise(bounds))
                for first, number in starts:
                    raw = content[words[first].start() : words[end[first] - 1].end()]
                    out[number] = re.sub(" +", " ", raw)
    return out
