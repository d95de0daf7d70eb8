"""Co-occurrence as a measure of how close two words are: that of their TF-IDF weights in the text's sentences."""

import numpy as np
import scipy.sparse

from ff_memories.corpus.store import Corpus

SENTENCES = 500_000  # drawn from a larger text


def sentence_vectors(corpus: Corpus, term: np.ndarray, terms: int, rng: np.random.Generator) -> scipy.sparse.csr_array:
    """Return unit vectors (terms, sentences) whose products are the cosines of TF-IDF weights.

    A sentence counts a term once, and has unit length itself, so that long ones weigh no more.

    Args:
        corpus: whose training sentences are read.
        term: (vocab,) int64 the term of each type, -1 for those left out.
        terms: how many there are.
        rng: draws the sentences of a larger text.
    """
    from sklearn.feature_extraction.text import TfidfTransformer  # costs a second, so only where it is needed
    from sklearn.preprocessing import normalize

    number = corpus.train
    drawn = np.ones(number, bool) if number <= SENTENCES else rng.permutation(number) < SENTENCES
    read = np.repeat(drawn, corpus.lengths[:number])
    of_token = term[corpus.tokens[: corpus.offsets[number]][read]]
    of_sentence = np.repeat(np.arange(drawn.sum()), corpus.lengths[:number][drawn])
    cells = of_sentence[of_token >= 0], of_token[of_token >= 0]
    holds = scipy.sparse.csr_array((np.ones(len(cells[0]), np.float32), cells), shape=(int(drawn.sum()), terms))
    holds.data[:] = 1
    return normalize(TfidfTransformer().fit_transform(holds).T.tocsr())
