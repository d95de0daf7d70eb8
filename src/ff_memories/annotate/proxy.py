"""Annotate sampled keys automatically (E2), by counting, where the paper asked human annotators.

The proxy's accuracy is measured on this run's text: on random prefixes with planted patterns, and with none. A shallow
pattern is planted by writing one n-gram of the text over the ends of 6 to 20 of a key's prefixes; a topic, by putting
words of one group into that many of them. A group's words are close by embeddings or by TF-IDF, as the proxy searches
for them, so the recall covers only topics that these measures know. Passages test how well they know the topics of real
texts: 6 to 20 prefixes from neighbouring sentences, among random ones.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from ff_memories import tables
from ff_memories.annotate import semantic, shallow
from ff_memories.annotate.permutation_test import Candidate, Draws
from ff_memories.annotate.scoring import Measured, label_of, share
from ff_memories.annotate.semantic import Lexicon, Topics
from ff_memories.annotate.shallow import Shallow
from ff_memories.annotate.study import Prefix, SampledKey, random_prefixes
from ff_memories.base.draws import generator
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.tokenizer import Types
from ff_memories.tables.annotation import ANNOTATOR

ALPHA = 0.007  # probability of any pattern in a key with random prefixes; half of it for each type
REFERENCE, POOL = 20_000, 4_000


class Annotator:
    """Find the patterns of a key: shallow ones first, then topics among the remaining words.

    It learns from the triggers' corpus and input embeddings (vocab, d) what random prefixes have in common.
    """

    def __init__(self, corpus: Corpus, dictionary: Types, embedding: torch.Tensor, triggers: pl.DataFrame, seed: int):
        reference = random_prefixes(corpus, triggers, REFERENCE, seed, "pattern reference")
        pool = random_prefixes(corpus, triggers, POOL, seed, "pattern pool")
        lexicon = Lexicon(dictionary.types, corpus, embedding, generator(seed, "pattern word pairs"))

        def rng_of(kind: str) -> Draws:
            return lambda shown: generator(seed, f"{kind} patterns of {shown} random prefixes")

        self.shallow = Shallow(dictionary.types, reference, pool, rng_of("shallow"))
        self.topics = Topics(lexicon, pool, rng_of("semantic"))

    def annotate(self, key: SampledKey) -> list[tuple[str, str, Candidate]]:
        """Return a key's patterns as (type, description, pattern)."""
        patterns, parts = self.shallow.find(key.prefixes, ALPHA / 2)
        topics = self.topics.find(key.prefixes, parts, ALPHA / 2)
        return [("shallow", shallow.describe(p), p) for p in patterns] + [
            ("semantic", semantic.describe(t), t) for t in topics
        ]


def annotate(annotator: Annotator, keys: list[SampledKey]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of ``annotations`` and ``pattern_labels`` for the sampled keys (section 3.1, figure 2)."""
    patterns, labels = [], []
    for key in keys:
        ranks_of: dict[str, set[int]] = {"shallow": set(), "semantic": set()}
        for number, (kind, description, pattern) in enumerate(annotator.annotate(key), 1):
            ranks = [key.ranks[i] for i in sorted(pattern.members)]
            ranks_of[kind].update(ranks)
            patterns.append((ANNOTATOR, key.layer, key.key, number, description, kind, ranks))
        for rank in key.ranks:
            kinds = {kind for kind, ranks in ranks_of.items() if rank in ranks}
            labels.append((ANNOTATOR, key.layer, key.key, rank, label_of(kinds)))
    return (
        pl.DataFrame(patterns, schema=tables.TABLES["annotations"].columns, orient="row"),
        pl.DataFrame(labels, schema=tables.TABLES["pattern_labels"].columns, orient="row"),
    )


PLANTED = {"shallow": 40, "semantic": 40, "both": 40, "passage": 40, "none": 400}  # keys of each kind
LEAST, MOST = 6, 20  # prefixes with a planted pattern
GROUP = 8
PASSAGE = 30  # sentences in a row
LENGTH = 8  # shortest prefix, in tokens, that patterns are planted in
PURE, ENOUGH = 0.8, 0.5  # of a found pattern's prefixes that hold the planted one; of the planted one's that it finds

Planted = tuple[frozenset[int], frozenset[int]]  # the tokens of a pattern, and its prefixes (indices)


@dataclass(frozen=True)
class Case:
    """A key whose patterns are known."""

    sort: str
    key: SampledKey
    planted: dict[str, Planted]


def cases(
    annotator: Annotator, corpus: Corpus, triggers: pl.DataFrame, top: int, seed: int, rng: np.random.Generator
) -> list[Case]:
    """Return planted keys of every kind; keys with nothing planted are plain random prefixes."""
    needed = sum(PLANTED.values()) * top
    prefixes_left = iter(random_prefixes(corpus, triggers, 3 * needed, seed, "planted prefixes"))
    foils = [[next(prefixes_left) for _ in range(top)] for _ in range(PLANTED["none"])]
    long = [p for p in prefixes_left if len(p) >= LENGTH]
    groups, passages, out = _groups(annotator, rng), _passages(corpus), []
    if len(long) < top or not groups:
        return [_case("none", prefixes, {}, 0) for prefixes in foils]
    for sort in ("shallow", "semantic", "both", "passage"):
        for number in range(PLANTED[sort]):
            prefixes = [list(long[i]) for i in rng.choice(len(long), top, replace=False)]
            planted = {}
            if sort in ("semantic", "both"):
                of_way = groups[number % len(groups)]
                planted["semantic"] = _plant_topic(prefixes, of_way[rng.integers(len(of_way))], rng)
            if sort in ("shallow", "both"):
                planted["shallow"] = _plant_ngram(prefixes, _ngram(annotator, long, rng), rng)
            if sort == "passage" and passages:
                planted["passage"] = _plant_passage(prefixes, corpus, passages[rng.integers(len(passages))], rng)
            out.append(_case(sort, prefixes, planted, number))
    return out + [_case("none", prefixes, {}, number) for number, prefixes in enumerate(foils)]


def _case(sort: str, prefixes: Sequence[Sequence[int]], planted: dict[str, Planted], number: int) -> Case:
    topic = planted.get("semantic")
    if topic:  # an n-gram may have been written over the only word of the topic
        tokens, members = topic
        planted = planted | {"semantic": (tokens, frozenset(i for i in members if tokens & set(prefixes[i])))}
    key = SampledKey(0, number, tuple(range(1, len(prefixes) + 1)), tuple(tuple(p) for p in prefixes))
    return Case(sort, key, planted)


def _some(shown: int, rng: np.random.Generator) -> list[int]:
    most = min(MOST, shown)
    return rng.choice(shown, int(rng.integers(min(LEAST, most), most + 1)), replace=False).tolist()


def _groups(annotator: Annotator, rng: np.random.Generator) -> list[list[list[int]]]:
    """Return groups of types for each measure of closeness: a term with its nearest terms, one form of each."""
    lexicon = annotator.topics.lexicon
    terms = len(lexicon)
    forms = np.full(terms, -1)
    for token in np.argsort(lexicon.counts, kind="stable").tolist():  # the most frequent form is the last
        if lexicon.term[token] >= 0:
            forms[lexicon.term[token]] = token
    groups = []
    for near in lexicon.neighbours[:, :, :GROUP]:
        complete = np.flatnonzero((near < terms).all(1))
        groups.append([forms[near[i]].tolist() for i in rng.permutation(complete)[: 4 * GROUP].tolist()])
    return [group for group in groups if group]


def _passages(corpus: Corpus) -> list[list[int]]:
    """Return the longer sentences of each passage of the training text with enough of them."""
    long = np.flatnonzero(corpus.lengths[: corpus.train] > LENGTH)
    passages = np.split(long, np.searchsorted(long, np.arange(PASSAGE, corpus.train, PASSAGE)))
    return [sentences.tolist() for sentences in passages if len(sentences) >= MOST]


def _ngram(annotator: Annotator, prefixes: list[Prefix], rng: np.random.Generator) -> list[int]:
    """Return the last one to three tokens of some prefix, with a content word among them."""
    for _ in range(1000):
        tokens = prefixes[rng.integers(len(prefixes))][-int(rng.integers(1, 4)) :]
        if any(annotator.topics.lexicon.term[t] >= 0 for t in tokens):
            break
    return list(tokens)


def _plant_ngram(prefixes: list[list[int]], ngram: list[int], rng: np.random.Generator) -> Planted:
    members = _some(len(prefixes), rng)
    for i in members:
        prefixes[i][-len(ngram) :] = ngram
    return frozenset(ngram), frozenset(members)


def _plant_topic(prefixes: list[list[int]], group: list[int], rng: np.random.Generator) -> Planted:
    members = _some(len(prefixes), rng)
    for i in members:
        positions = len(prefixes[i]) - 5  # not at the end: there it would be a shallow pattern too
        for position in rng.choice(positions, int(rng.integers(1, min(3, positions) + 1)), replace=False).tolist():
            prefixes[i][position] = int(rng.choice(group))
    return frozenset(group), frozenset(members)


def _plant_passage(prefixes: list[list[int]], corpus: Corpus, passage: list[int], rng: np.random.Generator) -> Planted:
    members = _some(len(prefixes), rng)
    for i, sentence in zip(members, rng.choice(passage, len(members), replace=False).tolist(), strict=True):
        tokens = corpus.sentence(sentence)
        prefixes[i] = tokens[: int(rng.integers(LENGTH, len(tokens)))].tolist()
    return frozenset(), frozenset(members)


def scores(annotator: Annotator, planted: list[Case]) -> list[Measured]:
    """Return the proxy's (measure, value, low, high, n) on keys whose patterns are known; intervals are exact."""
    right: Counter[str] = Counter()
    trials: Counter[str] = Counter()
    for case in planted:
        patterns = annotator.annotate(case.key)
        if case.sort == "none":
            right["foil_rate"] += bool(patterns)
            trials["foil_rate"] += 1
            continue
        for kind, (_, members) in case.planted.items():
            sought = "semantic" if kind == "passage" else kind
            pure = [p for k, _, p in patterns if k == sought and len(p.members & members) >= PURE * len(p.members)]
            right[f"{kind}_recall"] += any(len(p.members & members) >= ENOUGH * len(members) for p in pure)
            trials[f"{kind}_recall"] += 1
        for kind, _, p in patterns if case.sort != "passage" else ():  # a passage's other patterns are real but unknown
            _, members = case.planted.get(kind, (None, frozenset()))
            right[f"{kind}_precision"] += len(p.members & members) >= PURE * len(p.members)
            trials[f"{kind}_precision"] += 1
    names = ["foil_rate", *(f"{kind}_{what}" for kind in ("shallow", "semantic") for what in ("precision", "recall"))]
    return [(name, *share(right[name], trials[name])) for name in [*names, "passage_recall"]]
