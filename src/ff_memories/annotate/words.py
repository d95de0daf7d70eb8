"""Classify tokens: content words, stems and shapes; and count them."""

import re
from functools import cache

import numpy as np

from ff_memories.corpus.dictionary import SPECIALS
from ff_memories.corpus.store import Corpus

_NUMBER = re.compile(r"^[+-]?\d[\d.,]*$")
_VOWEL = re.compile(r"[aeiouy]")


@cache
def is_content(word: str) -> bool:
    """Say whether a token can carry a topic: no stop word, punctuation, single letter or clitic such as "n't"."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # takes a second to import, so only if needed

    return (
        (len(word) > 1 or word.isdigit())
        and word[0].isalnum()
        and "'" not in word
        and word not in SPECIALS
        and word.lower() not in ENGLISH_STOP_WORDS
    )


def sort_of(word: str) -> str | None:
    """Return ``number``, ``mark``, ``content`` or ``function``; ``None`` for special tokens."""
    if word in SPECIALS:
        return None
    if _NUMBER.match(word):
        return "number"
    if not any(c.isalnum() for c in word):
        return "mark"
    return "content" if is_content(word) else "function"


def stem(word: str) -> str:
    """Return a word in lower case without its plural, past or progressive ending, if the rest can be a word.

    Two words with the same stem are forms of one word. The stem itself need not be a word.
    """
    word = word.lower()
    if not word.isalpha() or len(word) < 4:
        return word
    for ending, put in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word.removesuffix(ending) + put
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return _without_e(word[:-1])
    for ending in ("ied", "ing", "ed"):
        base = word.removesuffix(ending)
        if ending == "ied" and base != word and len(base) >= 2:
            return base + "y"
        if base != word and len(base) >= 3 and _VOWEL.search(base):
            doubled = len(base) > 3 and base[-1] == base[-2] and base[-1] not in "lsz"
            return _without_e(base[:-1] if doubled else base)
    return _without_e(word)


def _without_e(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("e") and word[-2] not in "aeiou" else word


def shape(word: str) -> str | None:
    """Return the shape of a prefix's last token: ``number``, ``capitalised word`` or ``None``."""
    if _NUMBER.match(word):
        return "number"
    if word[:1].isupper() and word.isalpha() and len(word) > 1:
        return "capitalised word"
    return None


def train_counts(corpus: Corpus, vocab: int, before: int | None = None) -> np.ndarray:
    """Return how often each type (vocab,) occurs in the training text, or at positions 1..before-1 of its sentences."""
    tokens = corpus.tokens[: corpus.offsets[corpus.train]]
    if before is not None:
        starts = corpus.offsets[: corpus.train]
        ends = corpus.offsets[1 : corpus.train + 1]
        tokens = np.concatenate([tokens[(starts + i)[starts + i < ends]] for i in range(before - 1)])
    return np.bincount(tokens, minlength=vocab)
