"""Find the stop words among tokens (section 5.1), by an installed package's list or by frequency."""

from ff_memories.base.errors import UserError, with_extra
from ff_memories.corpus.dictionary import SPECIALS, Dictionary
from ff_memories.corpus.types import Types


def _sklearn() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return ENGLISH_STOP_WORDS


def _spacy() -> frozenset[str]:
    try:
        from spacy.lang.en.stop_words import STOP_WORDS
    except ImportError:
        raise UserError(
            "composition.stop_words: spacy is not installed",
            f"{with_extra('spacy')}, or set composition.stop_words: sklearn",
        ) from None
    return frozenset(STOP_WORDS)


def _most_frequent(dictionary: Types, most: int) -> frozenset[str]:
    # A dictionary file lists its types by decreasing frequency.
    alphabetic = [word for word in dictionary.types[len(SPECIALS) :] if word.isalpha()]
    return frozenset(word.lower() for word in alphabetic[:most])


def stop_words(source: str, dictionary: Types) -> frozenset[int]:
    """Return the ids of the tokens that are stop words, comparing whole tokens in lower case.

    Args:
        source: ``sklearn``, ``spacy``, ``top50`` or ``top100`` (the most frequent alphabetic types).

    Raises ``UserError`` if the package is not installed.
    """
    if source == "sklearn":
        words = _sklearn()
    elif source == "spacy":
        words = _spacy()
    else:
        words = _most_frequent(dictionary, int(source.removeprefix("top")))
    first = len(SPECIALS) if isinstance(dictionary, Dictionary) else 0
    return frozenset(i for i, word in enumerate(dictionary.types[first:], first) if word.lower() in words)
