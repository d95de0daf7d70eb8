"""E1: find every key's top triggers (table `triggers`), and how often every key fires (table `firing`)."""

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import AnyInputs, Execution, Input, Output, remove_other_shards, remove_shards
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.paper.keys import memory_selection, trigger_table
from ff_memories.paper.keys.steps.trigger_shard import search
from ff_memories.paper.keys.topk import merged


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    shards: AnyInputs,
    triggers: Output,
    firing: Output,
    counts: Output,
    execution: Execution,
) -> None:
    """Search the training text, or merge the shards of a search.

    Args:
        shards: the files that trigger-shard wrote; none: this job searches the whole text
    """
    text, options = store.read(corpus), config.triggers
    best = merged(shards) if shards else search(config, weights, description, text, execution)
    table = trigger_table.table(best, text)
    if table.is_empty():
        raise UserError(
            "no memory coefficient in the training text is positive",
            "check that checkpoint, dictionary and text belong together",
        )
    neurons = best.neurons or best.keys
    asked = memory_selection.memories(options.keys, len(best.lists), neurons, config)
    keys = best.keys // neurons * memory_selection.count(options.keys, len(best.lists), neurons)
    tables.write_counts("triggers", trigger_table.reasons(table, text, options, keys), counts)
    tables.write(table, triggers, best.precision, best.neurons)
    total = int(store.available(text, options.positions).sum())
    looked_at = None if asked is None else memory_selection.keys(asked, neurons, best.keys // neurons)
    fired = trigger_table.firing(best.fired.cpu().numpy(), total, looked_at)
    tables.write(fired, firing, best.precision, best.neurons)
    remove_other_shards(shards)
    if not shards:
        remove_shards(triggers.parent.parent / "lists.safetensors")
