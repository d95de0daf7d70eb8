"""Join the shards of tables, which other jobs of a step made: the rows of all of them, and the sums of what they count.

The shard of a run's `tables/values.parquet` is `shards/4096/1-of-4/tables/values.parquet`.
"""

from ff_memories import tables
from ff_memories.base.parameters import EveryOutput, Inputs


def run(shards: Inputs, joined: EveryOutput) -> None:
    """Join every table's shards.

    Args:
        shards: the shards of all tables
        joined: the tables to write
    """
    for path in joined:
        inside = path.parts[-2:]  # the folder and the table, in the run as in a shard
        tables.join([part for part in shards if part.parts[-2:] == inside], path)
