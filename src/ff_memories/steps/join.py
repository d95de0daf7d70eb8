"""Join the shards of tables, which other jobs of a step made: the rows of all of them, and the sums of what they count.

The shard of a run's `tables/values.parquet` is `shards/1-of-4/tables/values.parquet`.
"""

import re
from pathlib import Path

from ff_memories import tables
from ff_memories.base.parameters import EveryOutput, Inputs

SHARD = re.compile(r"\d+-of-\d+")


def run(shards: Inputs, joined: EveryOutput) -> None:
    """Join every table's shards, and remove those of a run with another number of shards.

    Args:
        shards: the shards of all tables
        joined: the tables to write
    """
    for path in joined:
        own = [part for part in shards if path.parts[-len(_inside(part)) :] == _inside(part)]
        tables.join(own, path)
        remove_others(own)


def remove_others(shards: list[Path]) -> None:
    """Remove the shards of a file that are of a run with another number of shards than these."""
    for folder, inside in {(_folder(part).parent, "/".join(_inside(part))) for part in shards}:
        for other in folder.glob(f"*-of-*/{inside}"):
            if not _folder(other).name.endswith(f"-of-{len(shards)}"):
                other.unlink()


def _folder(part: Path) -> Path:
    """Return the folder of a file's shard: ``shards/1-of-4``."""
    return next(folder for folder in part.parents if SHARD.fullmatch(folder.name))


def _inside(part: Path) -> tuple[str, ...]:
    """Return a file's place in the folder of its shard: the table's in the run's folder."""
    return part.relative_to(_folder(part)).parts
