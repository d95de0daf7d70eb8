"""Read text files into sentences of token ids, each with its place in the files, and read a sentence's text back."""

import re
from collections.abc import Callable, Iterator, Sized
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories.base.errors import UserError
from ff_memories.corpus import forms
from ff_memories.corpus.dictionary import BYTE_ORDER_MARK, PAD, UNK, Dictionary
from ff_memories.corpus.segment import Segmenter, inside, raw_rule
from ff_memories.corpus.store import Sentences
from ff_memories.corpus.tokenizer import Tokenizer, Types

BOUNDARY = "\x1e"  # stands where a mark of a document's end or beginning stood, character by character: a blank
HEADING = re.compile(r"\s*=(\s.*\s|\s)=\s*")  # of WikiText: `` = Title = ``, with one or more signs by level
Piece = tuple[int, int, list[str], list[int], list[bool]]  # word, character in it, text, ids, which begin a word


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of a file's lines, without a byte order mark, and ``BOUNDARY`` in the place of marks.

    Raises ``UserError``, naming file and line, if it is not UTF-8 or a line is longer than ``forms.LONGEST`` bytes.
    """
    with forms.opened(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(forms.LONGEST + 1), b""), 1):
            if len(raw) > forms.LONGEST:
                what = f"has more than {forms.LONGEST:,} bytes, too many for a paragraph"
                raise UserError(f"{path}, line {number}: {what}", forms.PLAIN)
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise forms.not_utf8(path, number, error.start) from None
            if number == 1:
                text = text.removeprefix(BYTE_ORDER_MARK)
            if "<" in text:
                text = forms.MARK.sub(lambda mark: BOUNDARY * len(mark[0]), text)
            yield number, text


@cache
def moses() -> Callable[[str], list[str]]:
    """Return the tokenizer of the released code (deviation D3): English Moses, aggressive dash splits, HTML escapes."""
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang="en")
    return lambda text: tokenizer.tokenize(text, aggressive_dash_splits=True, escape=True)


def paragraphs(path: Path) -> Iterator[tuple[int, list[str], bool]]:
    """Yield (line number, words, whether it is a heading) for each line that is not blank.

    A line with documents' boundaries in it is several paragraphs.
    """
    for number, text in lines(path):
        for part in text.split(BOUNDARY) if BOUNDARY in text else (text,):
            if words := part.split():
                yield number, words, HEADING.fullmatch(part) is not None


def sentences(
    files: list[Path],
    dictionary: Types,
    segmenter: Segmenter,
    max_tokens: int,
    *,
    headings: str = "keep",
    too_long: str = "refuse",
    max_sentences: int | None = None,
    tokenize: Callable[[str], list[str]] | None = None,
) -> Sentences:
    """Read text files into sentences of token ids.

    Args:
        files: text files in reading order; every line is a paragraph, and blank lines are skipped.
        dictionary: the model's dictionary; unlisted words become ``<unk>``. A tokenizer cuts words into pieces.
        segmenter: returns where to cut a paragraph, given its words (split at spaces).
        max_tokens: the longest sentence that the model takes, without its start token.
        headings: ``keep`` WikiText headings as sentences, or ``drop`` them.
        too_long: ``refuse`` a longer sentence, or ``split`` it into pieces of ``max_tokens``; with a tokenizer, into
            pieces of whole words, or of whole characters where a word is longer than a piece.
        max_sentences: stop after this many sentences.
        tokenize: maps a sentence's text to its tokens; ``None``: split at spaces (as in the paper).

    Raises:
        UserError: a file is missing, empty or not UTF-8, or a sentence is too long; the message names the place.
    """
    out = Sentences()
    for path in files:
        before, line, after = len(out), 0, 0
        for number, words, heading in paragraphs(path):
            base = after if number == line else 0  # words of the line's earlier paragraphs
            line, after = number, base + len(words)
            starts = segmenter(words)  # also for a dropped heading: it is asked of every paragraph, in order
            if headings == "drop" and heading:
                out.counts["headings_dropped"] += 1
                continue
            out.counts["paragraphs"] += 1
            places = [(start, 0) for start in starts]
            if segmenter is raw_rule and not isinstance(dictionary, Dictionary):
                places = sorted(places + inside(words))
            for (start, first), (end, stop) in zip(places, [*places[1:], (len(words), 0)], strict=True):
                piece = words[start : end + (stop > 0)]
                piece[-1] = piece[-1][: stop or None]
                piece[0] = piece[0][first:]
                if isinstance(dictionary, Tokenizer):
                    ids, begins = dictionary.encode_words(piece)
                else:
                    ids = dictionary.encode(piece if tokenize is None else tokenize(" ".join(piece)))
                    out.counts["tokens_pad"] += ids.count(PAD)
                    ids, begins = [UNK if i == PAD else i for i in ids], []  # fairseq would skip padding
                if len(ids) > max_tokens:
                    if too_long == "refuse":
                        what = f"the sentence has {len(ids)} tokens, but the model takes at most {max_tokens}"
                        hint = "set corpus.too_long: split, or shorten the sentence"
                        raise UserError(f"{path}, line {number}, token {start + 1}: {what}", hint)
                    out.counts["sentences_split"] += 1
                pieces: list[Piece]
                if isinstance(dictionary, Dictionary):
                    pieces = [(n, 0, [], ids[n : n + max_tokens], begins) for n in range(0, len(ids), max_tokens)]
                elif len(ids) <= max_tokens:
                    pieces = [(0, 0, piece, ids, begins)] if ids else []
                else:
                    pieces = list(_pieces(piece, dictionary, max_tokens, f"{path}, line {number}"))
                    if cut := len({word for word, at, *_ in pieces if at}):
                        out.counts["words_cut"] = out.counts.get("words_cut", 0) + cut
                for word, at, part, own, starts_word in pieces:
                    out.counts["tokens"] += len(own)
                    out.counts["tokens_unknown"] += 0 if dictionary.unknown is None else own.count(dictionary.unknown)
                    if part != words[start + word : start + word + len(part)]:  # it begins or ends inside a word
                        out.inside[len(out)] = (at + (0 if word else first), len(" ".join(part)))
                    out.add(own, path.as_posix(), number, base + start + word, starts_word)
                    if len(out) == max_sentences:
                        return out
        if len(out) == before:
            raise UserError(f"{path}: the file has no text", "give a file with at least one sentence")
    return out


def _pieces(words: list[str], tokenizer: Tokenizer, most: int, where: str) -> Iterator[Piece]:
    """Cut a sentence into pieces of whole words with at most ``most`` tokens; a longer word, between characters."""
    words, first, at, at_once = [*words], 0, 0, 16 * most  # more is not encoded at a time
    while first < len(words):
        end = min(len(words), first + at_once)
        while len(words[first]) > at_once or len(ids := tokenizer.encode(words[first:end])) > most:
            if len(words[first]) <= at_once and end - first > 1:
                end = max(first + (end - first) * most // len(ids), first + 1)
                continue
            part = _beginning(words[first], tokenizer, most, where)
            yield first, at, [part], *tokenizer.encode_words([part])
            at, words[first] = at + len(part), words[first][len(part) :]
            end = first
            break
        if end > first:
            yield first, at, words[first:end], *tokenizer.encode_words(words[first:end])
            first, at = end, 0


def _beginning(word: str, tokenizer: Tokenizer, most: int, where: str) -> str:
    """Return as much of a word as has at most ``most`` tokens, cut behind a character."""
    size = min(len(word) - 1, 16 * most)
    while size and len(ids := tokenizer.encode([word[:size]])) > most:
        size = min(size - 1, max(size * most // len(ids), 1))
    if not size:
        raise UserError(f"{where}: a character of more than {most} tokens, which the model takes", "leave it out")
    return word[:size]


def of_sentences(sentences: pl.DataFrame, types: Types | None = None) -> dict[int, str]:
    """Return {sentence number: its text in the text files, with runs of spaces collapsed}.

    ``sentences``: the table, or the wanted rows together with those that follow them on the same line; ``types``: those
    of a model with a tokenizer. Raises ``UserError`` where the text changed since the run: a sentence is missing, or
    its number of tokens differs, both when split at spaces and by Moses. A sentence that was split between Moses'
    tokens fails too: its pieces have no text of their own.
    """
    tried: list[tuple[int, UserError]] = []
    ways: list[Callable[[str], Sized]] = [str.split, lambda text: moses()(text)]  # a run may have split its text so
    if types is not None:
        ways = [lambda text: types.encode(text.split())]
    for tokenize in ways:
        out: dict[int, str] = {}
        try:
            out.update(_read_back(sentences, tokenize))
            return out
        except UserError as error:
            tried.append((len(out), error))
    raise max(tried, key=lambda t: t[0])[1]  # the run's own tokenizer gets further


def _read_back(sentences: pl.DataFrame, tokenize: Callable[[str], Sized]) -> Iterator[tuple[int, str]]:
    last = set(sentences.group_by("split").agg(pl.col("sentence").max())["sentence"])
    for (_, file), rows in sentences.sort("sentence").group_by("split", "file", maintain_order=True):
        wanted: dict[int, list[tuple[Any, ...]]] = {}
        inside = ("first_character", "characters")
        rows = rows.with_columns(pl.lit(None).alias(name) for name in inside if name not in rows.columns)
        for line, *place in rows.select("line", "first_token", "sentence", "tokens", *inside).iter_rows():
            wanted.setdefault(line, []).append(tuple(place))
        for line, content in lines(Path(str(file))):
            if starts := wanted.pop(line, None):
                words = list(re.finditer(r"\S+", content))
                following = dict(pairwise([*sorted({first for first, *_ in starts}), len(words)]))
                for first, number, tokens, before, characters in starts:
                    if before is not None:
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
