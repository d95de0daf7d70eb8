"""Cut a step's work into shards, which any number of jobs do in any order.

A step's work consists of units, such as batches or layers, which follow from its input and its config alone. A shard is
a run of consecutive units, so the number of shards changes no unit, hence no number.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from ff_memories.base.errors import UserError

Unit = TypeVar("Unit")
Shard = tuple[int, int]  # (1, 4): the first of four
WHOLE: Shard = (1, 1)


def shard_of(text: str) -> Shard:
    """Return (1, 4) for ``1-of-4``. Raises ``UserError`` for any other form."""
    number, _, shards = text.partition("-of-")
    if not (number.isdecimal() and shards.isdecimal() and 1 <= int(number) <= int(shards)):
        raise UserError(f"--shard {text}: not a shard", "name a shard in the form 1-of-4")
    return int(number), int(shards)


def remove_shards(path: Path) -> None:
    """Remove the shards of a file that one job has made: they are of a run that cut the step's work."""
    for folder in path.parents:
        for shard in (folder / "shards").glob(f"*-of-*/{path.relative_to(folder).as_posix()}"):
            shard.unlink()


def share(units: Sequence[Unit], shard: Shard) -> Sequence[Unit]:
    """Return a shard's units, about as many as any other's; none if there are more shards than units."""
    number, shards = shard
    return units[(number - 1) * len(units) // shards : number * len(units) // shards]
