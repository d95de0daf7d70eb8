"""Run a slow segmenter in shards, record where it cuts every paragraph, and replay the cuts to build the corpus.

A paragraph's cuts depend only on its words. So any number of jobs can make the shards in any order, and the cuts work
with every dictionary and tokenizer.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import atomic_write, require_file
from ff_memories.base.progress import Progress
from ff_memories.corpus.splitting.segment import Segmenter
from ff_memories.corpus.text import paragraphs


@dataclass(frozen=True)
class Cuts:
    """The cuts of paragraphs: each one's number of words and of sentences, and all sentences' first words, flat."""

    words: np.ndarray
    sentences: np.ndarray
    starts: np.ndarray


def needed(corpus: dict[str, Any], split: str) -> int | None:
    """Return how many paragraphs of a split are enough for ``max_sentences``; ``None``: all."""
    return None if corpus["headings"] == "drop" else corpus[split]["max_sentences"]


def texts(files: list[Path], most: int | None) -> Iterator[list[str]]:
    """Yield at most ``most`` paragraphs of a split's files, as words."""
    yield from itertools.islice((words for path in files for _, words, _ in paragraphs(path)), most)


def find(splits: list[tuple[list[Path], int | None]], segmenter: Segmenter, shard: int, shards: int) -> Cuts:
    """Cut the paragraphs of one shard: every ``shards``-th one, so all shards take about equally long."""
    mine, total = [], 0
    for files, most in splits:
        for number, paragraph in enumerate(texts(files, most)):
            if number % shards == shard:
                mine.append(paragraph)
                total += len(paragraph)
    words: list[int] = []
    sentences: list[int] = []
    starts: list[int] = []
    with Progress(total, "words", "segments") as progress:
        for paragraph in mine:
            found = segmenter(paragraph)
            words.append(len(paragraph))
            sentences.append(len(found))
            starts += found
            progress.step(len(paragraph))
    return Cuts(*(np.array(part, dtype=np.int32) for part in (words, sentences, starts)))


def save(cuts: Cuts, path: str | Path) -> None:
    """Write a shard's cuts atomically."""
    with atomic_write(path) as partial:
        save_file(vars(cuts), partial)


def load(path: str | Path) -> Cuts:
    """Read a shard's cuts. Raises ``UserError`` if the file is damaged."""
    require_file(path)
    try:
        return Cuts(**load_file(path))
    except (SafetensorError, OSError, TypeError) as error:
        raise UserError(f"{path}: cannot be read as recorded cuts ({error})", rebuild_hint(path)) from None


def replay(shards: Iterable[Cuts], splits: list[int]) -> list[Segmenter]:
    """Return one segmenter per split that replays the recorded cuts, paragraph by paragraph.

    Args:
        shards: all shards, in order.
        splits: number of paragraphs in each split.

    Raises:
        UserError: the cuts were recorded for another text.
    """
    every = list(shards)
    ends = [np.cumsum(cuts.sentences) for cuts in every]
    before = np.zeros(len(every), dtype=np.int64)  # paragraphs of earlier splits in each shard
    out: list[Segmenter] = []
    for paragraphs_ in splits:
        out.append(_Replay(every, ends, before.copy(), paragraphs_))
        before += [len(range(shard, paragraphs_, len(every))) for shard in range(len(every))]
    if any(n != len(cuts.words) for n, cuts in zip(before, every, strict=True)):
        raise UserError(
            "the recorded cuts belong to another text", "remove the run's folder cuts/ and run the workflow again"
        )
    return out


class _Replay:
    """One split's recorded cuts."""

    def __init__(self, every: list[Cuts], ends: list[np.ndarray], before: np.ndarray, paragraphs_: int):
        self.every, self.ends, self.before, self.left = every, ends, before, paragraphs_
        self.asked = 0

    def __call__(self, words: list[str]) -> list[int]:
        shard = self.asked % len(self.every)
        at = int(self.before[shard]) + self.asked // len(self.every)
        cuts = self.every[shard]
        if self.asked >= self.left or cuts.words[at] != len(words):
            raise UserError(
                "the recorded cuts belong to another text", "remove the run's folder cuts/ and run the workflow again"
            )
        self.asked += 1
        end = int(self.ends[shard][at])
        return cuts.starts[end - int(cuts.sentences[at]) : end].tolist()
