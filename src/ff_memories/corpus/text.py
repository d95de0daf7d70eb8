"""Text files to sentences of token ids, each with the place it came from."""

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.corpus.dictionary import BYTE_ORDER_MARK, PAD, REMOVE_MARK, UNK, Dictionary
from ff_memories.corpus.segment import Segmenter
from ff_memories.corpus.sentences import Sentences

_HEADING = re.compile(r"^\s*=(\s.*\s|\s)=\s*$")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of a file's lines. Raises ``UserError`` naming file and line where it is not UTF-8."""
    require_file(path)
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    text = raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise UserError(
                        f"{path}, line {number}: not UTF-8 at byte {error.start} of the line",
                        "convert the file, for example: iconv -f latin1 -t utf-8",
                    ) from None
                if number == 1 and text.startswith(BYTE_ORDER_MARK):
                    raise UserError(f"{path}: begins with a byte order mark", REMOVE_MARK)
                yield number, text
    except FileNotFoundError:
        raise UserError(f"{path}: no such text file", "check corpus.train.files and corpus.validation.files") from None


def is_heading(text: str) -> bool:
    """Say whether a line is a WikiText heading: `` = Title = ``, with as many signs as its level."""
    return bool(_HEADING.match(text))


def paragraphs(path: Path) -> Iterator[tuple[int, list[str], bool]]:
    """Yield (line number, words, whether it is a heading) of a file's lines that aren't blank."""
    for number, text in lines(path):
        if words := text.split():
            yield number, words, is_heading(text)


def sentences(
    files: list[Path],
    dictionary: Dictionary,
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
        files: text files in reading order; blank lines separate nothing that line ends do not.
        dictionary: the model's; unlisted words become ``<unk>``.
        segmenter: where to cut a paragraph, given its blank-separated words.
        max_tokens: the longest sentence the model takes, without ``</s>``.
        headings: ``drop`` leaves WikiText headings out.
        too_long: ``refuse`` a longer sentence, or ``split`` it into pieces of ``max_tokens``; both are counted.
        max_sentences: stop after this many.
        tokenize: maps a sentence's text to its tokens; ``None``: its blank-separated words (the paper's reading).

    Raises:
        UserError: a missing or empty file, text that is not UTF-8, a sentence that is too long: with the place.
    """
    out = Sentences()
    for path in files:
        before = len(out)
        for number, words, heading in paragraphs(path):
            starts = segmenter(words)  # also of a heading that is dropped: recorded cuts come paragraph by paragraph
            if headings == "drop" and heading:
                out.counts["headings_dropped"] += 1
                continue
            out.counts["paragraphs"] += 1
            for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
                piece = words[start:end]
                ids = dictionary.encode(piece if tokenize is None else tokenize(" ".join(piece)))
                out.counts["tokens_pad"] += ids.count(PAD)
                ids = [UNK if i == PAD else i for i in ids]  # padding is no token: fairseq would skip it
                out.counts["tokens"] += len(ids)
                out.counts["tokens_unknown"] += ids.count(UNK)
                if len(ids) > max_tokens:
                    if too_long == "refuse":
                        raise UserError(
                            f"{path}, line {number}, token {start + 1}: a sentence of {len(ids)} tokens; "
                            f"the model takes {max_tokens}",
                            "set corpus.too_long: split, or shorten the sentence",
                        )
                    out.counts["sentences_split"] += 1
                for first in range(0, len(ids), max_tokens):
                    out.add(ids[first : first + max_tokens], path.as_posix(), number, start + first)
                    if len(out) == max_sentences:
                        return out
        if len(out) == before:
            raise UserError(f"{path}: no text in it", "give a file with at least one sentence")
    return out


def sha256(files: list[Path]) -> str:
    """Return the SHA-256 of files, read one after the other."""
    digest = hashlib.sha256()
    for path in files:
        require_file(path)
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()
