"""The released code's tokenisation: Moses, applied to text that is already tokenised (deviation D3)."""

from collections.abc import Callable


def tokenizer() -> Callable[[str], list[str]]:
    """Return the tokenizer that the released code scores with: English Moses, aggressive dash splits, HTML escapes."""
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(lang="en")
    return lambda text: moses.tokenize(text, aggressive_dash_splits=True, escape=True)
