"""Join the shards of tables, which other jobs of a step made: the rows of all of them, and the sums of what they count.

The shard of a run's `tables/values.parquet` is `shards/1-of-4/tables/values.parquet`.
"""

from ff_memories import tables
from ff_memories.base.parameters import EveryOutput, Inputs, path_in_shard, remove_other_shards


def run(shards: Inputs, joined: EveryOutput) -> None:
    """Join every table's shards, and remove those of a run with another number of shards.

    Args:
        shards: the shards of all tables
        joined: the tables to write
    """
    for path in joined:
        of_table = [part for part in shards if path.parts[-len(path_in_shard(part)) :] == path_in_shard(part)]
        tables.join(of_table, path)
        remove_other_shards(of_table)
