"""Find semantic patterns (section 3.1): topics, as sets of words close to each other.

Words are close in one of two ways: in the model's embeddings, which group words that can replace each
other, or by TF-IDF, which groups words that occur in the same sentences. A topic is a word with its nearest
neighbours in one of these ways, among the text's frequent words. We try every word in a key's prefixes, alone,
with one neighbour, with two and so on. A prefix has the topic if it contains one of its words.
The chance for random prefixes follows from the words' frequencies and the prefixes' numbers of content words,
so long prefixes and common words gain no advantage.
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse
import torch

from ff_memories.annotate.permutation_test import Candidate, Correction, Draws, frequent, tail
from ff_memories.annotate.study import FEWEST, Prefix
from ff_memories.annotate.words import is_content, sort_of, stem, train_counts
from ff_memories.base.draws import generator
from ff_memories.corpus.store import Corpus

SIZES = np.array([1, 2, 3, 4, 6, 8, 11, 16, 24])  # numbers of words in a topic that are tried, nearest first
NEIGHBOURED = 10_000  # most frequent words that have neighbours
TRAINED = 20  # occurrences; a rarer word's embedding mostly reflects its rarity
CLOSE = 0.99  # a neighbour is closer than this share of pairs of words
SAMPLE = 200  # words whose pairs with all others determine what is close
CHUNK = 1024
OPENING = 5  # shorter prefixes are openings of sentences, where other words are common
PRIOR = 1_000  # pseudo-count of the whole text's content words in the openings' frequencies
SENTENCES = 500_000  # sampled from larger texts, for TF-IDF
PAIRS = 2_000  # random pairs to compare a pair with
ALIKE = 200  # words of similar frequency to draw from
CLOSER = 0.95  # two words of one sort are close if they are closer than this share of random pairs
SAME = 0.5  # topics that share this part of the smaller one's prefixes are merged

Units = np.ndarray | scipy.sparse.csr_array  # unit vectors, by rows


class Lexicon:
    """The content words of a text. Forms of one word are one *term*, with a frequency and near neighbours.

    Attributes:
        term: (vocab,) int64, the term of each type, -1 if it is not a content word.
        counts: (vocab,) number of occurrences of each type in the training text.
        neighbours: (ways, terms, SIZES[-1]) int64, a term itself and then its nearest terms, by embeddings and by
            TF-IDF, padded with the number of terms.
        chance: (2, ways, terms, sizes) share of a topic's words among all content words of the text, and among those
            of the openings of its sentences.
    """

    def __init__(self, types: Sequence[str], corpus: Corpus, embedding: torch.Tensor, rng: np.random.Generator):
        terms: dict[str, int] = {}
        self.types = types
        self.term = np.array([terms.setdefault(stem(w), len(terms)) if is_content(w) else -1 for w in types])
        content = np.flatnonzero(self.term >= 0)
        self.counts, opening = (train_counts(corpus, len(types), before) for before in (None, OPENING))
        totals, first = (
            np.bincount(self.term[content], weights=counts[content], minlength=len(terms))
            for counts in (self.counts, opening)
        )
        overall = (totals + 1) / (totals.sum() + 1)  # an unseen word is as rare as one seen once
        first = (first + PRIOR * overall) / (first.sum() + PRIOR)

        common = np.argsort(-totals, kind="stable")[:NEIGHBOURED]
        common = np.sort(common[totals[common] >= TRAINED])
        row_of_term = np.full(len(totals) + 1, -1)
        row_of_term[common] = np.arange(len(common))
        row = row_of_term[self.term]  # each type's row among the common terms
        self.neighbours = np.full((2, len(totals), SIZES[-1]), len(totals))
        self.neighbours[:, :, 0] = np.arange(len(totals))
        if len(common) > 1:
            ids, most = np.append(common, len(totals)), min(int(SIZES[-1]), len(common))
            by_sentences = sentence_vectors(corpus, row, len(common), rng)
            ways: tuple[Units, Units] = self._vectors(embedding, row, len(common)), by_sentences
            for way, units in enumerate(ways):
                self.neighbours[way, common, 1:most] = ids[_nearest(units, most - 1, rng)]
        shares = np.pad(np.stack([overall, first]), ((0, 0), (0, 1)))  # the padding belongs to no term
        self.chance = np.cumsum(shares[:, self.neighbours], axis=3)[..., SIZES - 1]

    def __len__(self) -> int:
        return self.neighbours.shape[1]

    def _vectors(self, embedding: torch.Tensor, row: np.ndarray, terms: int) -> np.ndarray:
        """Return unit vectors (terms, d): means of the embeddings of a term's forms, weighted by their counts."""
        forms = np.flatnonzero(row >= 0)
        at, weights = torch.from_numpy(row[forms]), torch.from_numpy(self.counts[forms] + 1.0).float()
        means = torch.zeros(terms, embedding.shape[1]).index_add_(0, at, embedding[forms].float() * weights[:, None])
        means /= torch.zeros(terms).index_add_(0, at, weights)[:, None]
        return closeness_vectors(means, means.mean(0)).numpy()


def closeness_vectors(vectors: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """Return unit vectors (n, d) float32 whose products are the cosines around ``centre`` (d,).

    A language model's embeddings share one large component, which would make all words look alike.
    """
    return torch.nn.functional.normalize(vectors.float() - centre.float(), dim=1)


class WordCloseness:
    """Say whether two words of one sort are closer than random words of that sort with similar frequencies.

    ``embedding``: (vocab, d), a model's output embeddings; ``counts``: (vocab,), how often each of its types occurs.
    """

    def __init__(self, embedding: torch.Tensor, counts: np.ndarray, types: Sequence[str], seed: int):
        self.embedding, self.centre, self.seed = embedding, embedding.mean(0), seed
        self.sorts = [sort_of(word) for word in types]
        self.order: dict[str | None, np.ndarray] = {}  # each sort's types by decreasing frequency
        self.position = np.empty(len(types), dtype=np.int64)  # each type's place among those of its sort
        for sort in set(self.sorts):
            members = np.flatnonzero([s == sort for s in self.sorts])
            self.order[sort] = members[np.argsort(-counts[members], kind="stable")]
            self.position[self.order[sort]] = np.arange(len(members))

    def _alike(self, token: int, rng: np.random.Generator) -> torch.Tensor:
        order = self.order[self.sorts[token]]
        most = min(ALIKE, len(order))
        first = min(max(self.position[token] - most // 2, 0), len(order) - most)
        return torch.from_numpy(order[first + rng.integers(0, most, PAIRS)])

    def __call__(self, one: int, other: int) -> bool:
        if self.sorts[one] != self.sorts[other] or self.sorts[one] is None:
            return False
        if self.sorts[one] in ("number", "mark"):
            return True
        first, second = min(one, other), max(one, other)
        rng = generator(self.seed, f"words like {first} and {second}")
        left, right = self._alike(first, rng), self._alike(second, rng)
        cosines = self._cosines(left, right)[left != right]
        return bool(self._cosines(torch.tensor([one]), torch.tensor([other])) > torch.quantile(cosines, CLOSER))

    def _cosines(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        one, other = (closeness_vectors(self.embedding[ids], self.centre) for ids in (left, right))
        return (one * other).sum(1)


def sentence_vectors(corpus: Corpus, term: np.ndarray, terms: int, rng: np.random.Generator) -> scipy.sparse.csr_array:
    """Return unit vectors (terms, sentences) whose dot products are the cosines of TF-IDF weights over sentences.

    A training sentence counts each term once and has unit length, so long ones weigh no more than short ones.
    ``term``: (vocab,) int64, the term of each type, -1 for types left out.
    """
    from sklearn.feature_extraction.text import TfidfTransformer  # takes a second to import, so only if needed
    from sklearn.preprocessing import normalize

    number = corpus.train
    sampled = np.ones(number, bool) if number <= SENTENCES else rng.permutation(number) < SENTENCES
    tokens = corpus.tokens[: corpus.offsets[number]][np.repeat(sampled, corpus.lengths[:number])]
    of_token = term[tokens]
    of_sentence = np.repeat(np.arange(sampled.sum()), corpus.lengths[:number][sampled])
    cells = of_sentence[of_token >= 0], of_token[of_token >= 0]
    holds = scipy.sparse.csr_array((np.ones(len(cells[0]), np.float32), cells), shape=(int(sampled.sum()), terms))
    holds.data[:] = 1
    return normalize(TfidfTransformer().fit_transform(holds).T.tocsr())


def _nearest(units: Units, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return the nearest other vectors of each of n unit vectors, (n, most); n if none is close."""
    n = units.shape[0]

    def cosines(rows: np.ndarray) -> np.ndarray:
        out = units[rows] @ units.T
        out = out if isinstance(out, np.ndarray) else out.toarray()
        out[np.arange(len(rows)), rows] = np.nan
        return out

    floor = np.nanquantile(cosines(rng.permutation(n)[:SAMPLE]), CLOSE)
    out = np.full((n, most), n)
    for first in range(0, n, CHUNK):
        rows = np.arange(first, min(first + CHUNK, n))
        near = torch.from_numpy(np.nan_to_num(cosines(rows), nan=-2)).topk(most, dim=1)
        out[rows] = np.where((near.values > floor).numpy(), near.indices.numpy(), n)
    return out


class Topics:
    """Find topics in the prefixes of a key, against sets of random prefixes from a pool."""

    def __init__(self, lexicon: Lexicon, pool: Sequence[Prefix], rng_of: Draws):
        self.lexicon = lexicon
        self._pool = [self._terms(prefix, frozenset()) for prefix in pool]
        self._opens = [len(prefix) < OPENING for prefix in pool]
        self.corrected = Correction(self._smallest, len(pool), rng_of)

    def _smallest(self, indices: np.ndarray) -> float:
        topics = self._search([self._pool[i] for i in indices], [self._opens[i] for i in indices])
        return min((topic[0] for topic in topics), default=1.0)

    def _terms(self, prefix: Prefix, without: set[int] | frozenset[int]) -> np.ndarray:
        """Return the distinct terms of a prefix, without those of the tokens ``without``."""
        term = self.lexicon.term
        gone = {term[t] for t in without}
        return np.array(sorted({t for t in term[list(prefix)].tolist() if t >= 0 and t not in gone}), dtype=np.int64)

    def _search(self, prefixes: list[np.ndarray], opens: list[bool]) -> list[tuple[float, int, int, int, np.ndarray]]:
        """Try all topics around all terms; return the frequent ones: (p, way, term, size index, members).

        ``prefixes``: the terms of each prefix. ``opens``: whether each is only the opening of a sentence.
        The p-values are multiplied by the number of terms, since a set with more words has more chances.
        """
        lexicon, shown = self.lexicon, len(prefixes)
        terms = np.unique(np.concatenate(prefixes)) if prefixes else np.empty(0, np.int64)
        if not len(terms):
            return []
        near = np.concatenate(lexicon.neighbours[:, terms])
        index = np.searchsorted(terms, near)  # each neighbour's index among these terms, if it is one
        index = np.where(terms[np.minimum(index, len(terms) - 1)] == near, index, len(terms))
        holds = np.zeros((len(terms) + 1, shown), dtype=bool)
        for i, prefix_terms in enumerate(prefixes):
            holds[np.searchsorted(terms, prefix_terms), i] = True
        members = _reached(holds, index)
        counts = members.sum(2)
        rows, sizes = np.nonzero(counts >= FEWEST)
        ways, centres = rows // len(terms), terms[rows % len(terms)]
        chance = np.zeros(len(rows))
        lengths = np.array([[len(part), opening] for part, opening in zip(prefixes, opens, strict=True)])
        for (length, opening), often in zip(*np.unique(lengths, axis=0, return_counts=True), strict=True):
            rate = lexicon.chance[opening, ways, centres, sizes]
            chance += often / shown * -np.expm1(-rate * length)
        p = np.minimum(tail(counts[rows, sizes], shown, chance) * len(terms), 1.0)
        shows = frequent(counts[rows, sizes], shown, chance)
        return [
            (float(p[i]), int(ways[i]), int(centres[i]), int(sizes[i]), members[rows[i], sizes[i]])
            for i in np.flatnonzero(shows)
        ]

    def find(self, prefixes: Sequence[Prefix], without: set[int], alpha: float) -> list[Candidate]:
        """Find a key's topics among words ``without`` tokens of its shallow patterns; ``alpha``: chance of any one."""
        terms = [self._terms(prefix, without) for prefix in prefixes]
        opens = [len(prefix) < OPENING for prefix in prefixes]
        gone = {int(self.lexicon.term[t]) for t in without} | {len(self.lexicon)}
        merged: list[tuple[float, set[int], set[int]]] = []
        for p, way, term, size, members in sorted(self._search(terms, opens), key=lambda topic: topic[:4]):
            if self.corrected(p, len(prefixes)) > alpha:
                break
            topic = set(self.lexicon.neighbours[way, term, : SIZES[size]].tolist()) - gone
            holders = set(np.flatnonzero(members).tolist())
            if any(topic & words for _, words, _ in merged):
                continue  # shares words with a more certain topic
            for _, words, others in merged:
                if len(holders & others) >= SAME * min(len(holders), len(others)):
                    words |= topic
                    others |= holders
                    break
            else:
                merged.append((p, topic, holders))
        return [
            Candidate(self._words(words, [prefixes[i] for i in sorted(holders)]), "topic", frozenset(holders), p)
            for p, words, holders in merged
        ]

    def _words(self, topic: set[int], prefixes: Sequence[Prefix]) -> tuple[str, ...]:
        """Return the words of a topic in the prefixes, most widespread first, with one form per term."""
        term = self.lexicon.term
        holders: dict[int, list[int]] = {}
        for prefix in prefixes:
            for token in sorted(set(prefix)):
                if term[token] in topic:
                    holders.setdefault(int(term[token]), []).append(token)
        ordered = sorted(holders.items(), key=lambda item: (-len(item[1]), item[0]))
        return tuple(self.lexicon.types[max(sorted(set(tokens)), key=tokens.count)] for _, tokens in ordered)


def _reached(holds: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Return which prefixes contain any of the first 1, 2, 3, ... neighbours: (terms, sizes, prefixes) bool."""
    reached, first, parts = np.zeros((len(neighbours), holds.shape[1]), dtype=bool), 0, []
    for size in SIZES.tolist():
        reached = reached | holds[neighbours[:, first:size]].any(1)
        parts.append(reached)
        first = size
    return np.stack(parts, axis=1)


def describe(topic: Candidate) -> str:
    """Return a topic's description: its five most widespread words."""
    return f"topic: {', '.join(topic.words[:5])}"
