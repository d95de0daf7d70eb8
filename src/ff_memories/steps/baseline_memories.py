"""Measure a model of the baselines: one shard of its mutated triggers, and of what its values predict."""

import polars.selectors as cs

from ff_memories import tables
from ff_memories.base.parameters import Execution, Input, Inputs, Output, Shard, Wildcard
from ff_memories.base.sharding import shard_of
from ff_memories.config import Settings
from ff_memories.corpus.types import never_trained
from ff_memories.corpus.words import Words
from ff_memories.memories import mutations as mutants
from ff_memories.memories import untrained
from ff_memories.memories import values as predictions
from ff_memories.memories.search import chosen
from ff_memories.memories.search.shards import merged
from ff_memories.memories.search.trigger_table import table as trigger_table


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    dictionary: Input,
    lists: Inputs,
    model: Wildcard,
    values: Output,
    mutations: Output,
    execution: Execution,
    shard: Shard = "1-of-1",
) -> None:
    """Measure one shard.

    Args:
        lists: the model's trigger lists
        model: as of baseline-triggers
    """
    measured = untrained.Measured.of(model, config, weights, description, corpus, dictionary, execution)
    decoder, text, own = measured.decoder, measured.text, shard_of(shard)
    triggers = tables.conform(trigger_table(merged(lists), text), tables.TABLES["triggers"])
    keys = predictions.keys_of_shard(decoder, chosen.of_model(config.triggers.keys, decoder, config), own)
    predicted = predictions.table(
        decoder,
        decoder.vocabulary.reading(config.values.projection, config.values.projection_seed),
        triggers,
        text,
        config.values.target,
        config.values.types,
        keys,
    )
    if not never_trained(dictionary):  # then both choices of values.types have the same numbers, and one is kept
        predicted = predicted.drop(cs.ends_with(f"_{predictions.other(config.values.types)}"))
    drawn = mutants.sample(
        triggers,
        decoder.description.layers,
        decoder.memories,
        keys_per_layer=min(config.mutations.keys_per_layer, config.baselines.keys_per_layer),
        top=min(config.mutations.top, untrained.MUTATED_TRIGGERS),
        random=config.mutations.random,
        single_token=config.mutations.single_token,
        seed=config.seed,
        words=Words.of(text) if config.mutations.unit == "word" else None,
    )
    rows = mutants.of_shard(decoder, text, drawn.rows, execution.batch_tokens, own)
    mutated = mutants.mutated_coefficients(decoder, text, rows, execution.batch_tokens)
    for frame, path in ((predicted, values), (mutants.table(rows, mutated), mutations)):
        tables.write(frame, path, decoder.precision, decoder.neurons)
