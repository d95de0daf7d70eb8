"""Sentences as text again, from the files they came from: tables hold no text."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import polars as pl

from ff_memories.base.errors import UserError
from ff_memories.corpus import moses
from ff_memories.corpus.text import lines


def of_sentences(sentences: pl.DataFrame) -> dict[int, str]:
    """Return every sentence's text as it stands in the text files, runs of blanks as one: {sentence number: text}.

    Args:
        sentences: the ``sentences`` table, or the rows that are wanted and those that follow them on their lines.

    Raises:
        UserError: a text that changed since the run: a sentence is not there, or its tokens are not as many as they
            were, neither between blanks nor as Moses cuts them. A piece of a sentence that was split between Moses'
            tokens is refused, too: it has no text.
    """
    tried: list[tuple[int, UserError]] = []
    for tokenizer in (lambda: str.split, moses.tokenizer):
        out: dict[int, str] = {}
        try:
            out.update(_read(sentences, tokenizer()))
            return out
        except UserError as error:
            tried.append((len(out), error))
    raise max(tried, key=lambda t: t[0])[1]  # of the run's own tokens, which went further


def _read(sentences: pl.DataFrame, tokenize: Callable[[str], list[str]]) -> Iterator[tuple[int, str]]:
    last = set(sentences.group_by("split").agg(pl.col("sentence").max())["sentence"])
    for (_, file), rows in sentences.sort("sentence").group_by("split", "file", maintain_order=True):
        wanted: dict[int, list[tuple[int, int, int]]] = {}
        for number, line, first, tokens in rows.select("sentence", "line", "first_token", "tokens").iter_rows():
            wanted.setdefault(line, []).append((first, number, tokens))
        for line, content in lines(Path(str(file))):
            if starts := wanted.pop(line, None):
                words = list(re.finditer(r"\S+", content))
                following = dict(pairwise([*sorted({first for first, _, _ in starts}), len(words)]))
                for first, number, tokens in starts:
                    own = words[first : following[first]]
                    # corpus.train.max_sentences can end a split within a line
                    cut = number in last and following[first] == len(words)
                    if not (end := _end([word[0] for word in own], tokens, cut, tokenize)):
                        raise _changed(file, line, first)
                    yield number, re.sub(" +", " ", content[own[0].start() : own[end - 1].end()])
        for line, ((first, _, _), *_) in wanted.items():
            raise _changed(file, line, first)


def _end(words: list[str], tokens: int, cut: bool, tokenize: Callable[[str], list[str]]) -> int:
    """Return how many of the words these tokens are, all or (``cut``) the first ones; 0: it is another sentence."""
    fewer = range(1, min(len(words), tokens + 1)) if cut else ()
    return next((end for end in (len(words), *fewer) if len(tokenize(" ".join(words[:end]))) == tokens), 0)


def _changed(file: object, line: int, first: int) -> UserError:
    return UserError(
        f"{file}, line {line}: changed since the run, which read another sentence at token {first + 1}",
        "give the text as the run read it, or run again (with corpus.too_long: refuse, where Moses' tokens were split)",
    )
