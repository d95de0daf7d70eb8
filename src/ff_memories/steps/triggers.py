"""E1: merge the shards into the table `triggers`, and into `firing`, how often every key fires."""

from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Input, Inputs, Output
from ff_memories.config import Settings
from ff_memories.corpus import prefixes, store
from ff_memories.memories import chosen, trigger_table
from ff_memories.memories import firing as how_often
from ff_memories.memories.shards import load


def run(config: Settings, corpus: Input, shards: Inputs, triggers: Output, firing: Output, counts: Output) -> None:
    """Merge all shards.

    Args:
        shards: the files that trigger-shard wrote
    """
    text, options = store.read(corpus), config.triggers
    best = load(shards[0])
    for path in shards[1:]:
        best.merge(load(path))
    table = trigger_table.table(best, text)
    if table.is_empty():
        raise UserError(
            "no memory coefficient in the training text is positive",
            "check that checkpoint, dictionary and text belong together",
        )
    filled = table.group_by("layer", "key").len()["len"].cast(pl.Int64)
    neurons = best.neurons or best.keys
    asked = chosen.memories(options.keys, len(best.lists), neurons, config)
    keys = best.keys // neurons * chosen.count(options.keys, len(best.lists), neurons)
    available = prefixes.available(text, options.positions)
    reasons = {
        "keys": keys,
        "keys_that_never_fire": keys - len(filled),
        "keys_with_fewer_triggers": int((filled < options.top).sum()),
        "triggers": len(table),
        "triggers_with_the_text_of_a_better_one": trigger_table.repeated(table, text),
        "places_unfilled": keys * options.top - int(filled.sum()),
        "sentences_without_prefix": int((available == 0).sum()),
    }
    tables.write_counts("triggers", reasons, counts)
    tables.write(table, triggers, best.precision, best.neurons)
    looked_at = None if asked is None else chosen.keys(asked, neurons, best.keys // neurons)
    tables.write(
        how_often.table(best.fired.numpy(), int(available.sum()), looked_at), firing, best.precision, best.neurons
    )
    remove_others(shards)


def remove_others(shards: list[Path]) -> None:
    """Remove old shards next to these, from a run with another number of shards."""
    for folder in {path.parent for path in shards}:
        for path in set(folder.glob("*-of-*.safetensors")) - set(shards):
            path.unlink()
