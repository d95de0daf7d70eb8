"""Split paragraphs into sentences (section 3.1, footnote 3). A segmenter does not tokenise; it returns where to cut."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from ff_memories.base.errors import UserError, with_extra
from ff_memories.base.progress import Progress

Segmenter = Callable[[list[str]], list[int]]  # tokens of a paragraph -> index of each sentence's first token

MARKS = "。！？｡．‼⁇⁈⁉؟۔।॥։።፧။។៕།᠃"  # each ends sentences, and nothing else, in its script
CHUNK = 64  # paragraphs that a process is given at once
_ENDS = {".", "!", "?", *MARKS}
_CLOSERS = {'"', "'", "''", *")]}”’»›」』）】》〉"}


def rule(words: list[str]) -> list[int]:
    """Cut after ``. ! ?`` and the closing quotes or brackets that follow them.

    >>> rule('He said : " Yes ! " Then he left .'.split())
    [0, 7]
    """
    starts, index = [0], 0
    while index < len(words):
        if words[index] in _ENDS:
            index += 1
            odd = sum(w == '"' for w in words[starts[-1] : index]) % 2  # only an open quote can close
            while index < len(words) and words[index] in _CLOSERS and (words[index] != '"' or odd):
                odd = 0 if words[index] == '"' else odd
                index += 1
            if index < len(words) and words[index] not in _ENDS:
                starts.append(index)
        else:
            index += 1
    return starts if words else []


_END_OF_WORD = re.compile(r"[.!?։。！？]+[\"')\]}”’“»«]*$")
_END_IN_ANY_SCRIPT = re.compile(rf"(?P<marks>[.!?…{MARKS}]+)(?P<closers>[\"')\]}}”’»›」』）】》〉]*)")
_OPENERS = "\"'([{“‘`«»„‚‹¿¡「『（【《〈"
_INITIAL = "[A-Za-zЀ-ӿႠ-ჿ]"  # Latin, Cyrillic, Georgian
_ABBREVIATION = re.compile(
    rf"^[(\[\"'“‘]*(?:{_INITIAL}|(?:{_INITIAL}\.)+{_INITIAL}?|[Dd]r|[Mm]rs?|[Mm]s|[Pp]rof|[Ss]t|[Vv]s|[Cc]f|[Ee]tc|al|[Ff]igs?"
    r"|[Ee]qs?|[Ss]ecs?|[Nn]os?|pp?|vol|approx|resp|Inc|Ltd|Jr|Sr)\.$"
)


def raw_rule(words: list[str]) -> list[int]:
    """Cut raw text, given its blank-separated words: after ``. ! ?`` and what closes, before a capital or a digit.

    An abbreviation or a single letter ends no sentence. In a paragraph without capitals, or of a script without case, a
    sentence begins with any letter, and ends at the script's own marks as well (``inside``: without a blank too).

    >>> raw_rule('He said: "Yes!" Then Dr. Who left, i.e. Not here.'.split())
    [0, 3]
    """
    starts = [0] if words else []
    text = " ".join(words)
    any_letter = text.islower() or _caseless(text)
    for index in range(1, len(words)):
        before, word = words[index - 1], words[index]
        if before == "»":  # as in « Non. » Elle rit.
            before = "".join(words[max(index - 2, 0) : index])
        if word == "«":
            word = "".join(words[index : index + 2])
        word = word.lstrip(_OPENERS)
        opens = bool(word) and (word[0].isupper() or word[0].isdigit())
        ends = opens and _END_OF_WORD.search(before) is not None
        if not ends and any_letter and (end := re.search(f"{_END_IN_ANY_SCRIPT.pattern}“?$", before)):
            own_mark = not set(end["marks"]).isdisjoint(MARKS)
            letters = word[:1].isalpha() and any(map(str.isalpha, before))
            ends = own_mark or (letters and not _ABBREVIATION.match(before.capitalize()))
        if ends and not _ABBREVIATION.match(before):
            starts.append(index)
    return starts


def inside(words: list[str]) -> list[tuple[int, int]]:
    """Return the sentences that begin inside words, as (word, character), in scripts that put no blank between them.

    >>> inside(["今天很好。我们走吧！", "（好？）走。"])
    [(0, 5), (1, 4)]
    """
    if not _caseless("".join(words)):
        return []
    ends = ((index, word, end) for index, word in enumerate(words) for end in _END_IN_ANY_SCRIPT.finditer(word))
    return [(index, end.end()) for index, word, end in ends if _parts(word, end)]


def _parts(word: str, end: re.Match[str]) -> bool:
    """Return whether a sentence ends at these marks and another begins behind them."""
    if not end.start() or end.end() == len(word):
        return False
    before, after = word[end.start() - 1], word[end.end()]
    if set(end["marks"]) <= set(".!?…．"):
        return "…" not in end["marks"] and before.isalpha() and after.isalpha() and not _cased(before + after)
    if end["closers"][-1:] in ("」", "』") and "HIRAGANA" in unicodedata.name(after, ""):  # as in 「はい。」と言った
        return False
    return after in _OPENERS or after.isalnum()


def _cased(text: str) -> bool:
    return text.lower() != text.upper()


def _caseless(text: str) -> bool:
    """Return whether at least a third of a text's letters have no case."""
    if text.isascii():
        return False
    letters = [char for char in text if char.isalpha()]
    return 3 * sum(not _cased(char) for char in letters) >= len(letters) > 0


def line(words: list[str]) -> list[int]:
    """Return no cut: every line is one sentence."""
    return [0] if words else []


def spacy(pipeline: str, folder: Path | None = None, raw: bool = False) -> Segmenter:
    """Return a segmenter that cuts where a spaCy pipeline does; the ``Doc`` has the given tokens, as in released code.

    ``folder`` is a fetched pipeline; otherwise the pipeline must be installed. With ``raw``, the pipeline tokenises the
    text itself, and a sentence begins at one of the given words. Raises ``UserError`` if spaCy or the pipeline is not
    installed, or if the pipeline sets no sentence boundaries.
    """
    try:
        import spacy as library
        from spacy.tokens import Doc
    except ImportError:
        raise UserError("corpus.segmenter needs spaCy, which is not installed", with_extra("spacy")) from None
    try:
        nlp = library.load(folder or pipeline, exclude=["ner", "lemmatizer"])
    except OSError:
        hint = f"run python -m spacy download {pipeline}, or set corpus.segmenter: rule"
        raise UserError(f"corpus.segmenter: the spaCy pipeline {pipeline!r} is not installed", hint) from None

    def cut(words: list[str]) -> list[int]:
        if raw:
            begins = np.cumsum([0, *(len(word) + 1 for word in words)])
            starts = [sentence.start_char for sentence in nlp(" ".join(words)).sents]
            return sorted(set(np.searchsorted(begins, starts).tolist()) - {len(words)})
        doc = Doc(nlp.vocab, words=words, spaces=[True] * (len(words) - 1) + [False] if words else [])
        for _, pipe in nlp.pipeline:
            doc = pipe(doc)
        return [sentence.start for sentence in doc.sents] if words else []

    try:
        cut(["One", ".", "Two", "."])
    except ValueError:
        raise UserError(f"corpus.segmenter: the spaCy pipeline {pipeline!r} sets no sentence boundaries") from None
    return cut


def _starts(words: list[str], name: str, folder: Path | None, raw: bool) -> list[int]:
    return segmenter(name, folder, raw)(words)


def cuts(
    paragraphs: Iterable[list[str]], name: str, folder: Path | None, raw: bool, processes: int
) -> Iterator[list[int]]:
    """Yield where to cut each paragraph, found by several processes; arguments as of ``segmenter``."""
    segmenter(name, folder, raw)  # where it is missing, the error is raised here
    paragraphs, starts = iter(paragraphs), partial(_starts, name=name, folder=folder, raw=raw)
    pool = ProcessPoolExecutor(processes, get_context("spawn"))
    with pool as executor, Progress(0, "paragraphs", "sentences") as progress:
        while some := list(islice(paragraphs, CHUNK * 16 * processes)):
            yield from executor.map(starts, some, chunksize=CHUNK)
            progress.step(len(some))


@cache
def segmenter(name: str, folder: Path | None = None, raw: bool = False) -> Segmenter:
    """Return the segmenter that ``corpus.segmenter`` names: ``rule``, ``line`` or ``spacy:<pipeline>``.

    ``raw``: for raw text, whose words have their marks on them.
    """
    if name.startswith("spacy:"):
        return spacy(name.removeprefix("spacy:"), folder, raw)
    return {"rule": raw_rule if raw else rule, "line": line}[name]
