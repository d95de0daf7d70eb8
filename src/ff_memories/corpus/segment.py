"""Split paragraphs into sentences (section 3.1, footnote 3). A segmenter does not tokenise; it returns where to cut."""

from collections.abc import Callable
from pathlib import Path

from ff_memories.base.errors import UserError

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


def line(words: list[str]) -> list[int]:
    """Return no cut: every line is one sentence."""
    return [0] if words else []


def spacy(pipeline: str, folder: Path | None = None) -> Segmenter:
    """Return a segmenter that cuts where a spaCy pipeline does; the ``Doc`` has the given tokens, as in released code.

    ``spacy:blank`` is a blank English pipeline with the rule-based sentencizer. ``folder`` is a fetched pipeline;
    otherwise the pipeline must be installed. Raises ``UserError`` if spaCy or the pipeline is not installed, or if the
    pipeline sets no sentence boundaries.
    """
    try:
        import spacy as library
        from spacy.tokens import Doc
    except ImportError:
        raise UserError(
            "corpus.segmenter needs spaCy, which is not installed", "run pip install -c constraints.txt -e '.[spacy]'"
        ) from None
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
        doc = Doc(nlp.vocab, words=words, spaces=[True] * (len(words) - 1) + [False] if words else [])
        for _, pipe in nlp.pipeline:
            doc = pipe(doc)
        return [sentence.start for sentence in doc.sents] if words else []

    try:
        cut(["One", ".", "Two", "."])
    except ValueError:
        raise UserError(f"corpus.segmenter: the spaCy pipeline {pipeline!r} sets no sentence boundaries") from None
    return cut


def segmenter(name: str, folder: Path | None = None) -> Segmenter:
    """Return the segmenter that ``corpus.segmenter`` names: ``rule``, ``line`` or ``spacy:<pipeline>``."""
    if name.startswith("spacy:"):
        return spacy(name.removeprefix("spacy:"), folder)
    return {"rule": rule, "line": line}[name]
