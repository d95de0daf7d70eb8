"""Split paragraphs into sentences (section 3.1, footnote 3). A segmenter does not tokenise; it returns where to cut."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ff_memories.base.errors import UserError, with_extra

Segmenter = Callable[[list[str]], list[int]]  # tokens of a paragraph -> index of each sentence's first token

_ENDS = {".", "!", "?"}
_CLOSERS = {'"', "'", "''", ")", "]", "}", "”", "’"}


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


_END_OF_WORD = re.compile(r"[.!?]+[\"')\]}”’]*$")
_ABBREVIATION = re.compile(
    r"^[(\[\"'“‘]*(?:[A-Za-z]|(?:[A-Za-z]\.)+[A-Za-z]?|[Dd]r|[Mm]rs?|[Mm]s|[Pp]rof|[Ss]t|[Vv]s|[Cc]f|[Ee]tc|al|[Ff]igs?"
    r"|[Ee]qs?|[Ss]ecs?|[Nn]os?|pp?|vol|approx|resp|Inc|Ltd|Jr|Sr)\.$"
)


def raw_rule(words: list[str]) -> list[int]:
    """Cut raw text, given its blank-separated words: after ``. ! ?`` and what closes, before a capital or a digit.

    An abbreviation or a single letter ends no sentence.

    >>> raw_rule('He said: "Yes!" Then Dr. Who left, i.e. Not here.'.split())
    [0, 3]
    """
    starts = [0] if words else []
    for index in range(1, len(words)):
        before, word = words[index - 1], words[index].lstrip("\"'([{“‘`")
        opens = bool(word) and (word[0].isupper() or word[0].isdigit())
        if opens and _END_OF_WORD.search(before) and not _ABBREVIATION.match(before):
            starts.append(index)
    return starts


def line(words: list[str]) -> list[int]:
    """Return no cut: every line is one sentence."""
    return [0] if words else []


def spacy(pipeline: str, folder: Path | None = None, raw: bool = False) -> Segmenter:
    """Return a segmenter that cuts where a spaCy pipeline does; the ``Doc`` has the given tokens, as in released code.

    ``spacy:blank`` is a blank English pipeline with the rule-based sentencizer. ``folder`` is a fetched pipeline;
    otherwise the pipeline must be installed. With ``raw``, the pipeline tokenises the text itself, and a sentence
    begins at one of the given words. Raises ``UserError`` if spaCy or the pipeline is not installed, or if the pipeline
    sets no sentence boundaries.
    """
    try:
        import spacy as library
        from spacy.tokens import Doc
    except ImportError:
        raise UserError("corpus.segmenter needs spaCy, which is not installed", with_extra("spacy")) from None
    if pipeline == "blank":
        nlp = library.blank("en")
        nlp.add_pipe("sentencizer")
    else:
        try:
            nlp = library.load(folder or pipeline, exclude=["ner", "lemmatizer"])
        except OSError:
            raise UserError(
                f"corpus.segmenter: the spaCy pipeline {pipeline!r} is not installed",
                f"run python -m spacy download {pipeline}, or set corpus.segmenter: rule",
            ) from None

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


def segmenter(name: str, folder: Path | None = None, raw: bool = False) -> Segmenter:
    """Return the segmenter that ``corpus.segmenter`` names: ``rule``, ``line`` or ``spacy:<pipeline>``.

    ``raw``: for raw text, whose words have their marks on them.
    """
    if name.startswith("spacy:"):
        return spacy(name.removeprefix("spacy:"), folder, raw)
    return {"rule": raw_rule if raw else rule, "line": line}[name]
