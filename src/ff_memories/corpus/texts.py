"""Read sentences' text back from the text files, because tables contain no text."""

import re
from collections.abc import Callable, Iterator, Sized
from itertools import pairwise
from pathlib import Path

import polars as pl

from ff_memories.base.errors import UserError
from ff_memories.corpus.text import lines, moses
from ff_memories.corpus.types import Types


def of_sentences(sentences: pl.DataFrame, types: Types | None = None) -> dict[int, str]:
    """Return {sentence number: its text in the text files, with runs of spaces collapsed}.

    Args:
        sentences: the ``sentences`` table, or the wanted rows together with those that follow them on the same line.
        types: the token types, if the model has a tokenizer.

    Raises:
        UserError: the text changed since the run: a sentence is missing, or its number of tokens differs, both when
            split at spaces and by Moses. A sentence that was split between Moses' tokens also fails: its pieces have no
            text of their own.
    """
    tried: list[tuple[int, UserError]] = []
    by_types = () if types is None else (lambda: lambda text: types.encode(text.split()),)
    for tokenizer in by_types or (lambda: str.split, moses):
        out: dict[int, str] = {}
        try:
            out.update(_read(sentences, tokenizer()))
            return out
        except UserError as error:
            tried.append((len(out), error))
    raise max(tried, key=lambda t: t[0])[1]  # the run's own tokenizer gets further


def _read(sentences: pl.DataFrame, tokenize: Callable[[str], Sized]) -> Iterator[tuple[int, str]]:
    last = set(sentences.group_by("split").agg(pl.col("sentence").max())["sentence"])
    for (_, file), rows in sentences.sort("sentence").group_by("split", "file", maintain_order=True):
        wanted: dict[int, list[tuple[int, int, int, int | None, int | None]]] = {}
        for name in ("first_character", "characters"):
            rows = rows if name in rows.columns else rows.with_columns(pl.lit(None).alias(name))
        inside = ("first_character", "characters")
        for row in rows.select("sentence", "line", "first_token", "tokens", *inside).iter_rows():
            number, line, first, tokens, before, characters = row
            wanted.setdefault(line, []).append((first, number, tokens, before, characters))
        for line, content in lines(Path(str(file))):
            if starts := wanted.pop(line, None):
                words = list(re.finditer(r"\S+", content))
                following = dict(pairwise([*sorted({first for first, *_ in starts}), len(words)]))
                for first, number, tokens, before, characters in starts:
                    if before is not None and characters is not None:
                        text = " ".join(content[words[first].start() :].split())[before : before + characters]
                        if len(tokenize(text)) != tokens:
                            raise _changed(file, line, first)
                        yield number, text
                        continue
                    matches = words[first : following[first]]
                    # with corpus.train.max_sentences, a split can end within a line
                    cut = number in last and following[first] == len(words)
                    if not (end := _end([word[0] for word in matches], tokens, cut, tokenize)):
                        raise _changed(file, line, first)
                    yield number, re.sub(" +", " ", content[matches[0].start() : matches[end - 1].end()])
        for line, ((first, *_), *_) in wanted.items():
            raise _changed(file, line, first)


def _end(words: list[str], tokens: int, cut: bool, tokenize: Callable[[str], Sized]) -> int:
    """Return how many words make up these tokens: all, or with ``cut`` the first few; 0 if none fit."""
    fewer = range(1, min(len(words), tokens + 1)) if cut else ()
    return next((end for end in (len(words), *fewer) if len(tokenize(" ".join(words[:end]))) == tokens), 0)


def _changed(file: object, line: int, first: int) -> UserError:
    return UserError(
        f"{file}, line {line}: changed since the run, which read a different sentence at token {first + 1}",
        "restore the text, or run again (set corpus.too_long: refuse if corpus.tokenizer is moses)",
    )
