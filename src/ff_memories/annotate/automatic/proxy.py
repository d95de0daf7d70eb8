"""Annotate sampled keys automatically (E2), by counting, where the paper asked human annotators."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from ff_memories import tables
from ff_memories.annotate.automatic import semantic, shallow
from ff_memories.annotate.automatic.permutation_test import Candidate
from ff_memories.annotate.automatic.semantic import Lexicon, Topics
from ff_memories.annotate.automatic.shallow import Shallow
from ff_memories.annotate.scoring import label_of
from ff_memories.annotate.study import SampledKey, random_prefixes
from ff_memories.base.draws import generator
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.types import Types
from ff_memories.tables.annotation import ANNOTATOR

ALPHA = 0.007  # probability of any pattern in a key with random prefixes; half of it for each type
REFERENCE, POOL = 20_000, 4_000


@dataclass(frozen=True)
class Annotator:
    """Find the patterns of a key: shallow ones first, then topics among the remaining words."""

    shallow: Shallow
    topics: Topics

    @classmethod
    def of(
        cls, corpus: Corpus, dictionary: Types, embedding: torch.Tensor, triggers: pl.DataFrame, seed: int
    ) -> "Annotator":
        """Learn from a corpus what random prefixes have in common.

        Args:
            corpus: the source of the triggers.
            dictionary: its words.
            embedding: (vocab, d), the model's input embeddings.
            triggers: the ``triggers`` table, which shows what prefixes were compared.
            seed: of all draws.
        """
        reference = random_prefixes(corpus, triggers, REFERENCE, seed, "pattern reference")
        pool = random_prefixes(corpus, triggers, POOL, seed, "pattern pool")
        lexicon = Lexicon(dictionary.types, corpus, embedding, generator(seed, "pattern word pairs"))

        def rng_of(kind: str) -> Callable[[int], np.random.Generator]:
            return lambda shown: generator(seed, f"{kind} patterns of {shown} random prefixes")

        return cls(
            Shallow(dictionary.types, reference, pool, rng_of("shallow")), Topics(lexicon, pool, rng_of("semantic"))
        )

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
