"""The released code's tokenisation: Moses over text that is already tokenised (deviation D3)."""

from collections.abc import Callable


def tokenizer() -> Callable[[str], list[str]]:
    """Return the scorer's Moses tokenizer: English, aggressive dash splits, HTML escapes."""
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(lang="en")
    return lambda text: moses.tokenize(text, aggressive_dash_splits=True, escape=True)


def printer() -> Callable[[str], list[str]]:
    """Return the tokenizer that the released code prints triggers with: English, HTML escapes, hyphens left alone."""
    from sacremoses import MosesTokenizer

    return MosesTokenizer(lang="en").tokenize
