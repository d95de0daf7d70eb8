"""Memory that is used again, and memory that runs out: then the batch is run in two halves, and so on."""

import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import torch

from ff_memories.base.errors import UserError
from ff_memories.base.progress import Progress

Part = TypeVar("Part")
_ON_CPU = ("can't allocate memory", "not enough memory", "Cannot allocate memory")  # torch has no class for these


def out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that a device, or the machine, had no memory left."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _ON_CPU)


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


def sliced(part: slice) -> tuple[slice, slice]:
    """Cut a slice in two."""
    middle = part.start + (part.stop - part.start) // 2
    return slice(part.start, middle), slice(middle, part.stop)


def halved(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cut an array in two."""
    return part[: len(part) // 2], part[len(part) // 2 :]


def retry_smaller(
    run: Callable[[Part], None],
    part: Part,
    size: int,
    halves: Callable[[Part], tuple[Part, Part]],
    unit: str = "sentence",
) -> None:
    """Run a batch; where memory runs out, run its halves one after the other.

    Args:
        run: takes a batch; what it did before it failed may be done again.
        part, size: the batch, and how many there are in it.
        halves: cuts a batch in two.
        unit: of what a batch is made.

    Raises:
        UserError: one of them alone is too much.
    """
    try:
        return run(part)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        if size == 1:
            raise UserError(
                f"out of memory with a single {unit} in a batch",
                "use a device with more memory, or execution.device: cpu",
            ) from None
    if torch.cuda.is_available():  # outside of the except block: the error's frames hold the batch's tensors
        torch.cuda.empty_cache()
    print(f"out of memory: a batch of {size} {unit}s goes on in halves; lower execution.batch_tokens", file=sys.stderr)
    for half, n in zip(halves(part), (size // 2, size - size // 2), strict=True):
        retry_smaller(run, half, n, halves, unit)


def run_batches(
    run: Callable[[np.ndarray], None],
    batches: Iterable[np.ndarray],
    unit: str,
    about: str,
    of: str = "sentence",
    amount: np.ndarray | None = None,
) -> None:
    """Run batches without gradients, each in halves where memory runs out, and show the progress.

    Args:
        run: as of ``retry_smaller``.
        batches: (n,) each, the numbers of what runs together.
        unit, about: of the progress: what is counted, in the plural, and what the work is called.
        of: of what a batch is made.
        amount: how many units each counts; ``None``: one.
    """
    batches = list(batches)
    units = [len(part) if amount is None else int(amount[part].sum()) for part in batches]
    with torch.inference_mode(), Progress(sum(units), unit, about) as progress:
        for part, n in zip(batches, units, strict=True):
            retry_smaller(run, part, len(part), halved, of)
            progress.step(n)
