"""E1: find every key's top triggers in one shard of the training text."""

from ff_memories.base.parameters import Execution, Input, Output, Shard
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.paper.keys.topk import save
from ff_memories.paper.keys.triggers import search


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    lists: Output,
    execution: Execution,
    shard: Shard = (1, 1),
) -> None:
    """Find the triggers of one shard.

    Args:
        lists: file to write: the shard's trigger lists
    """
    save(search(config, weights, description, store.read(corpus), execution, shard), lists)
