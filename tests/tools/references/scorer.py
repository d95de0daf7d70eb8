"""Text as the released code's scorer reads it."""


def scorer_tokens(text):
    from sacremoses import MosesTokenizer

    return MosesTokenizer(lang="en").tokenize(text, aggressive_dash_splits=True, escape=True)
