"""Measure the closeness of words by co-occurrence: the cosine of their TF-IDF weights over sentences."""

import numpy as np
import scipy.sparse

from ff_memories.corpus.store import Corpus

SENTENCES = 500_000  # sampled from larger texts


def sentence_vectors(corpus: Corpus, term: np.ndarray, terms: int, rng: np.random.Generator) -> scipy.sparse.csr_array:
    """Return unit vectors (terms, sentences) whose dot products are the cosines of TF-IDF weights.

    A sentence counts each term once and has unit length, so long sentences weigh no more than short ones.

    Args:
        corpus: the corpus, of which training sentences are read.
        term: (vocab,) int64, the term of each type, -1 for types left out.
        terms: the number of terms.
        rng: samples the sentences of larger texts.
    """
    from sklearn.feature_extraction.text import TfidfTransformer  # takes a second to import, so only if needed
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
