"""Which sentences run together: fixed blocks of the corpus, inside them batches by length and token budget.

Shards are unions of blocks, so the number of shards, their order and the place where a run was resumed change no
batch, hence no number. Where memory runs out, a batch is run in two halves, and so on.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ff_memories.base.errors import UserError
from ff_memories.base.parameters import WHOLE, Shard, share
from ff_memories.base.progress import Progress
from ff_memories.corpus.store import Corpus

BLOCK_TOKENS = 1 << 17
ON_GPU = 1 << 20  # a block's, of which few batches are not full
BLOCKS, SMALLEST = 80, 1 << 10  # of a text whose blocks fit it: how many at least, of how many tokens at least


# A batch by length: for each text that runs, the ids of all sentences that have it, in ascending order.
Plan = list[np.ndarray]


def tokens_and_sentences(plan: Plan, corpus: Corpus) -> tuple[int, int]:
    """Return how many tokens and sentences of the corpus are done with a batch, equal ones included."""
    every = np.concatenate(plan)
    return int(corpus.offsets[every + 1].sum() - corpus.offsets[every].sum()), len(every)


def fitting(lengths: np.ndarray) -> int:
    """Return the tokens of a block that fits a text: many devices then have work on a small text too.

    It follows from the text alone, so the number of shards changes no block.
    """
    return min(BLOCK_TOKENS, max(SMALLEST, int((lengths + 1).sum()) // BLOCKS))


def blocks(lengths: np.ndarray, tokens: int = BLOCK_TOKENS) -> list[tuple[int, int]]:
    """Return (first, end) of consecutive blocks of sentences, all but the last of at least so many tokens."""
    ends = np.cumsum(lengths + 1)
    out, first, reached = [], 0, 0
    while first < len(lengths):
        end = min(int(np.searchsorted(ends, reached + tokens)) + 1, len(lengths))
        out.append((first, end))
        first, reached = end, ends[end - 1]
    return out


def joined(parts: Sequence[tuple[int, int]], lengths: np.ndarray) -> list[tuple[int, int]]:
    """Return a shard's blocks as blocks that fill a GPU's batches; what the shard holds does not change."""
    if not parts:
        return []
    first, end = parts[0][0], parts[-1][1]
    return [(first + a, first + b) for a, b in blocks(lengths[first:end], ON_GPU)]


def batches(corpus: Corpus, first: int, end: int, budget: int, shortest: int, run_all: bool) -> Iterator[Plan]:
    """Yield the batches of one block, of at most ``budget`` tokens each; a longer sentence runs alone.

    Sentences with fewer tokens than ``shortest`` hold no prefix of interest and are left out. ``run_all``: whether the
    last token runs too (its prefix is the complete sentence).
    """
    lengths = np.diff(corpus.offsets[first : end + 1])
    same: dict[bytes, list[int]] = {}
    for sentence in (first + np.flatnonzero(lengths >= shortest)).tolist():
        same.setdefault(corpus.sentence(sentence).tobytes(), []).append(sentence)
    groups = list(same.values())
    need = lengths[[group[0] - first for group in groups]]
    for part in by_length(need + run_all - 1, budget):
        yield [np.array(groups[i]) for i in part]


def sequences(lengths: np.ndarray, order: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Cut ``order``, indices of sequences sorted by length, into batches of at most ``budget`` rows."""
    rows = 0
    current: list[int] = []
    for index in order:
        need = int(lengths[index]) + 1
        if current and rows + need > budget:
            yield np.array(current)
            rows, current = 0, []
        rows += need
        current.append(index)
    if current:
        yield np.array(current)


def by_length(lengths: np.ndarray, budget: int, shard: Shard = WHOLE, more: np.ndarray | int = 0) -> list[np.ndarray]:
    """Return a shard's batches of sequences (n,), shortest first; no batch depends on the number of shards.

    ``budget``: rows of one forward pass; ``more``: (n,), rows that each sequence brings besides its own.
    """
    order = np.argsort(lengths, kind="stable")
    return list(share(list(sequences(lengths + more, order, budget)), shard))


_WORDS = ("allocate memory", "not enough memory", "error: out of memory", "_ALLOC_FAILED")  # of errors without a class


def out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that a device, or the machine, had no memory left."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


class ScratchBuffer:
    """Memory for one matrix after the other, as of every layer's coefficients in every batch.

    Batches differ in size: an allocator that is asked for new memory every time ends up holding several times as much
    as is in use.
    """

    def __init__(self) -> None:
        self._held: torch.Tensor | None = None

    def like(self, rows: torch.Tensor, columns: int) -> torch.Tensor:
        """Return a matrix of as many rows as another, and of its kind: the memory of the last one."""
        if self._held is None or len(self._held) < len(rows):
            self._held = None  # before there is a larger one
            self._held = rows.new_empty(len(rows), columns)
        return self._held[: len(rows)]

    def release(self) -> None:
        self._held = None


def retry_smaller(run: Callable[[Any], None], part: Any, unit: str = "sentence") -> None:
    """Run a batch, a sequence of units; where memory runs out, run its halves one after the other.

    What ``run`` did before it failed may be done again. Raises ``UserError`` where a single unit is too much.
    """
    size = len(part)
    try:
        return run(part)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        if size == 1:
            hint = "use a device with more memory, or execution.device: cpu"
            raise UserError(f"out of memory with a single {unit} in a batch", hint) from None
    if torch.cuda.is_available():  # outside of the except block: the error's frames hold the batch's tensors
        torch.cuda.empty_cache()
    print(f"out of memory: a batch of {size} {unit}s goes on in halves; lower execution.batch_tokens", file=sys.stderr)
    for half in (part[: size // 2], part[size // 2 :]):
        retry_smaller(run, half, unit)


def run_batches(
    run: Callable[[np.ndarray], None],
    batches: Iterable[np.ndarray],
    unit: str,
    about: str,
    of: str = "sentence",
    amount: np.ndarray | None = None,
) -> None:
    """Run batches, (n,) numbers each, without gradients, as ``retry_smaller`` does, and show the progress.

    ``amount``: how many units of the progress each number counts; ``None``: one. ``of``: what a batch is made of.
    """
    batches = list(batches)
    units = [len(part) if amount is None else int(amount[part].sum()) for part in batches]
    with torch.inference_mode(), Progress(sum(units), unit, about) as progress:
        for part, n in zip(batches, units, strict=True):
            retry_smaller(run, part, of)
            progress.step(n)
