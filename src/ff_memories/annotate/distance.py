"""E14, section 5.2: label by proxy how distant the last layer's compositions are from the words they combine.

A composition is a prediction that neither the residual nor the feed-forward layer made. It is *related* to one of those
two words if it is a form of it or spelled similarly, if both are numbers or both are punctuation marks, or if both are
content words or both function words and are closer in the model's output embeddings than 95 % of random pairs of that
sort and of similar frequency. Otherwise it is *distant*. Embeddings do not compare words of different sorts, since they
mainly reflect frequency, so "the" and "." would be close. There are two words to be close to, so about one in ten
compositions of random words of one sort would be called related by embeddings alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ff_memories import tables
from ff_memories.annotate.study import content_hash, identity
from ff_memories.annotate.words import sort_of, stem
from ff_memories.base.draws import generator
from ff_memories.base.text import escape_invisible
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.tokenizer import Types
from ff_memories.tables.annotation import ANNOTATOR

if TYPE_CHECKING:
    import torch  # takes a second to import, and only closeness needs it

CASES = 100
LABELS = ("distant", "related")
PAIRS = 2_000  # random pairs to compare a pair with
ALIKE = 200  # words of similar frequency to draw from
CLOSE = 0.95
PREFIX = 5  # common first letters of two words of one family, if they are most of the longer word


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
        import torch

        order = self.order[self.sorts[token]]
        most = min(ALIKE, len(order))
        first = min(max(self.position[token] - most // 2, 0), len(order) - most)
        return torch.from_numpy(order[first + rng.integers(0, most, PAIRS)])

    def __call__(self, one: int, other: int) -> bool:
        if self.sorts[one] != self.sorts[other] or self.sorts[one] is None:
            return False
        if self.sorts[one] in ("number", "mark"):
            return True
        import torch

        first, second = min(one, other), max(one, other)
        rng = generator(self.seed, f"words like {first} and {second}")
        left, right = self._alike(first, rng), self._alike(second, rng)
        cosines = self._cosines(left, right)[left != right]
        return bool(self._cosines(torch.tensor([one]), torch.tensor([other])) > torch.quantile(cosines, CLOSE))

    def _cosines(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        from ff_memories.annotate.semantic import closeness_vectors

        one, other = (closeness_vectors(self.embedding[ids], self.centre) for ids in (left, right))
        return (one * other).sum(1)


def spelled_alike(one: str, other: str) -> bool:
    """Say whether two words are forms of one word, of one family, or differ in only a letter or two."""
    a, b = one.lower(), other.lower()
    if stem(a) == stem(b):
        return True
    if not (a.isalpha() and b.isalpha()):
        return False
    longest = max(len(a), len(b))
    shared = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    if shared >= PREFIX and shared > longest / 2:
        return True
    allowed = 0 if longest < 5 else 1 if longest < 8 else 2
    return edits(a, b) <= allowed


def edits(one: str, other: str) -> int:
    """Return the Levenshtein distance of two words: insertions, deletions and replacements of letters."""
    row = list(range(len(other) + 1))
    for i, x in enumerate(one, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(other, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def compositions(refinement: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Sample up to 100 of the last layer's rows of kind ``composition``, sorted by example."""
    last = refinement.filter((pl.col("layer") == pl.col("layer").max()) & (pl.col("kind") == "composition"))
    last = last.sort("example")
    return last[sorted(generator(seed, "distance examples").permutation(len(last))[:CASES].tolist())]


@dataclass(frozen=True)
class Compared:
    """A composition as annotators see it: its prefix and the predictions there."""

    example: int
    prefix: tuple[str, ...]
    residual: str
    ffn: str
    output: str

    @property
    def item(self) -> str:
        """A name that contains a hash of the shown text, as for ``study.Item``."""
        return f"{identity('composition', None, self.example)}-{content_hash(repr(self))}"


def compared(
    cases: pl.DataFrame, examples: pl.DataFrame, corpus: Corpus, dictionary: Types, seed: int
) -> list[Compared]:
    """Return rows of ``refinement`` as annotators see them, in a random order."""

    def word(token: int) -> str:
        return escape_invisible(dictionary[token])

    predictions = cases.select("example", "residual_top", "ffn_top", "output_top")
    rows = predictions.join(examples, on="example", how="left").sort("example")
    out = [
        Compared(
            row["example"],
            tuple(word(t) for t in corpus.sentence(row["sentence"])[: row["position"]]),
            word(row["residual_top"]),
            word(row["ffn_top"]),
            word(row["output_top"]),
        )
        for row in rows.iter_rows(named=True)
    ]
    return [out[i] for i in generator(seed, "composition order").permutation(len(out)).tolist()]


def label(cases: pl.DataFrame, types: Sequence[str], closer: Callable[[int, int], bool]) -> pl.DataFrame:
    """Return the rows of ``distance_labels`` for rows of ``refinement``; ``closer``: whether two types are close."""
    out = []
    for example, output, *parts in cases.select("example", "output_top", "residual_top", "ffn_top").iter_rows():
        related = any(spelled_alike(types[output], types[part]) or closer(output, part) for part in parts)
        out.append((ANNOTATOR, example, "related" if related else "distant"))
    return pl.DataFrame(out, schema=tables.TABLES["distance_labels"].columns, orient="row")
