"""E14, section 5.2: label by proxy how distant the last layer's compositions are from the words they combine.

A composition is a prediction that neither the residual nor the feed-forward layer made. It is *related* to one of those
two words if it is a form of it or spelled similarly, if both are numbers or both are punctuation marks, or if both are
content words or both function words and are closer in the model's output embeddings than 95 % of random pairs of that
sort and of similar frequency. Otherwise it is *distant*. Embeddings do not compare words of different sorts, since they
mainly reflect frequency, so "the" and "." would be close. There are two words to be close to, so about one in ten
compositions of random words of one sort would be called related by embeddings alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from ff_memories import tables
from ff_memories.annotate.study import content_hash, identity
from ff_memories.annotate.words import stem
from ff_memories.base.draws import generator
from ff_memories.base.text import escape_invisible
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.tokenizer import Types
from ff_memories.tables.annotation import ANNOTATOR

CASES = 100
LABELS = ("distant", "related")
PREFIX = 5  # common first letters of two words of one family, if they are most of the longer word


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
    last = refinement.filter(pl.col("layer") == pl.col("layer").max(), kind="composition").sort("example")
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

    columns = ["example", "sentence", "position", "residual_top", "ffn_top", "output_top"]
    rows = cases.join(examples, on="example", how="left").sort("example").select(columns)
    out = [
        Compared(example, tuple(map(word, corpus.sentence(sentence)[:position])), *map(word, tops))
        for example, sentence, position, *tops in rows.iter_rows()
    ]
    return [out[i] for i in generator(seed, "composition order").permutation(len(out)).tolist()]


def label(cases: pl.DataFrame, types: Sequence[str], closer: Callable[[int, int], bool]) -> pl.DataFrame:
    """Return the rows of ``distance_labels`` for rows of ``refinement``; ``closer``: whether two types are close."""
    out = []
    for example, output, *parts in cases.select("example", "output_top", "residual_top", "ffn_top").iter_rows():
        related = any(spelled_alike(types[output], types[part]) or closer(output, part) for part in parts)
        out.append((ANNOTATOR, example, "related" if related else "distant"))
    return pl.DataFrame(out, schema=tables.TABLES["distance_labels"].columns, orient="row")
