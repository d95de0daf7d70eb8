"""Read text files into sentences of token ids, each with its place in the files."""

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.corpus.dictionary import BYTE_ORDER_MARK, PAD, REMOVE_MARK, UNK, Dictionary
from ff_memories.corpus.sentences import Sentences
from ff_memories.corpus.splitting.segment import Segmenter
from ff_memories.corpus.tokenizer import Tokenizer
from ff_memories.corpus.types import Types

_HEADING = re.compile(r"^\s*=(\s.*\s|\s)=\s*$")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of a file's lines. Raises ``UserError``, naming file and line, if it is not UTF-8."""
    require_file(path)
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    text = raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise UserError(
                        f"{path}, line {number}: not UTF-8 at byte {error.start} of the line",
                        "convert the file to UTF-8, for example with iconv -f latin1 -t utf-8",
                    ) from None
                if number == 1 and text.startswith(BYTE_ORDER_MARK):
                    raise UserError(f"{path}: begins with a byte order mark", REMOVE_MARK)
                yield number, text
    except FileNotFoundError:
        raise UserError(f"{path}: no such text file", "check corpus.train.files and corpus.validation.files") from None


def is_heading(text: str) -> bool:
    """Return whether a line is a WikiText heading: `` = Title = ``, with one or more signs by level."""
    return bool(_HEADING.match(text))


def paragraphs(path: Path) -> Iterator[tuple[int, list[str], bool]]:
    """Yield (line number, words, whether it is a heading) for each line that is not blank."""
    for number, text in lines(path):
        if words := text.split():
            yield number, words, is_heading(text)


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
            pieces of whole words.
        max_sentences: stop after this many sentences.
        tokenize: maps a sentence's text to its tokens; ``None``: split at spaces (as in the paper).

    Raises:
        UserError: a file is missing, empty or not UTF-8, or a sentence is too long; the message names the place.
    """
    out = Sentences()
    for path in files:
        before = len(out)
        for number, words, heading in paragraphs(path):
            starts = segmenter(words)  # also for a dropped heading: recorded cuts have one entry per paragraph
            if headings == "drop" and heading:
                out.counts["headings_dropped"] += 1
                continue
            out.counts["paragraphs"] += 1
            for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
                piece = words[start:end]
                begins: list[bool] = []
                if isinstance(dictionary, Dictionary):
                    ids = dictionary.encode(piece if tokenize is None else tokenize(" ".join(piece)))
                    out.counts["tokens_pad"] += ids.count(PAD)
                    ids = [UNK if i == PAD else i for i in ids]  # fairseq would skip padding
                else:
                    ids, begins = dictionary.encode_words(piece)
                out.counts["tokens"] += len(ids)
                out.counts["tokens_unknown"] += 0 if dictionary.unknown is None else ids.count(dictionary.unknown)
                if len(ids) > max_tokens:
                    if too_long == "refuse":
                        raise UserError(
                            f"{path}, line {number}, token {start + 1}: the sentence has {len(ids)} tokens, but the "
                            f"model takes at most {max_tokens}",
                            "set corpus.too_long: split, or shorten the sentence",
                        )
                    out.counts["sentences_split"] += 1
                if isinstance(dictionary, Dictionary):
                    pieces = [(n, ids[n : n + max_tokens], begins) for n in range(0, len(ids), max_tokens)]
                elif len(ids) <= max_tokens:
                    pieces = [(0, ids, begins)] if ids else []
                else:
                    pieces = list(_whole_words(piece, dictionary, max_tokens, f"{path}, line {number}"))
                for first, own, starts_word in pieces:
                    out.add(own, path.as_posix(), number, start + first, starts_word)
                    if len(out) == max_sentences:
                        return out
        if len(out) == before:
            raise UserError(f"{path}: the file has no text", "give a file with at least one sentence")
    return out


def _whole_words(
    words: list[str], tokenizer: Tokenizer, most: int, where: str
) -> Iterator[tuple[int, list[int], list[bool]]]:
    """Cut a sentence into pieces of whole words with at most ``most`` tokens.

    Yields the first word of each, its token ids, and which tokens begin a word.
    """
    first = 0
    while first < len(words):
        end = len(words)
        while len(ids := tokenizer.encode(words[first:end])) > most:
            end = max(first + (end - first) * most // len(ids), first) if end - first > 1 else first
            if end == first:
                if len(ids := tokenizer.encode(words[first : first + 1])) > most:
                    raise UserError(f"{where}: a word of {len(ids)} tokens; the model takes {most}", "shorten the text")
                end = first + 1
        yield first, *tokenizer.encode_words(words[first:end])
        first = end


def sha256(files: list[Path]) -> str:
    """Return the SHA-256 of the concatenated files."""
    digest = hashlib.sha256()
    for path in files:
        require_file(path)
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()
