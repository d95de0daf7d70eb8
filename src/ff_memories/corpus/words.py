"""The words of a corpus whose tokens are pieces of words."""

from dataclasses import dataclass

import numpy as np

from ff_memories.base.errors import UserError
from ff_memories.corpus.store import Corpus


@dataclass(frozen=True)
class Words:
    """Which tokens of each prefix make up a word.

    Attributes:
        starts: (words + 1,) the place of each word's first token among the corpus' tokens; then their number.
        through: (tokens,) how many words begin up to each token, itself included.
        offsets: of the corpus.
    """

    starts: np.ndarray
    through: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, corpus: Corpus) -> "Words":
        """Return a corpus' words. Raises ``UserError`` if it does not say where they begin."""
        if corpus.begins is None:
            raise UserError(
                "mutations.unit is word, but the corpus does not say where its words begin",
                "set mutations.unit: token; a run of this config makes a corpus with words",
            )
        starts = np.append(np.flatnonzero(corpus.begins), len(corpus.tokens))
        return cls(starts, np.cumsum(corpus.begins, dtype=np.uint32), corpus.offsets)

    def count(self, sentence: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return how many words prefixes have, the last one perhaps cut short; 0 of the empty prefix.

        Args:
            sentence: (rows,) numbers of sentences.
            position: (rows,) lengths of prefixes, in tokens.
        """
        if not len(sentence):
            return np.zeros(0, dtype=np.int64)
        first = self.offsets[sentence]
        through = self.through[np.maximum(first + position - 1, 0)].astype(np.int64)
        return np.where(position > 0, through - self.through[first].astype(np.int64) + 1, 0)

    def span(self, sentence: np.ndarray, position: np.ndarray, word: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first token (rows,) of a word of each prefix, from 1, and how many tokens the prefix has of it.

        Args:
            sentence, position: as of ``count``.
            word: (rows,) which word, from 1.
        """
        first = self.offsets[sentence]
        index = self.through[first].astype(np.int64) - 2 + word
        start, end = self.starts[index], np.minimum(self.starts[index + 1], first + position)
        return start - first + 1, end - start
