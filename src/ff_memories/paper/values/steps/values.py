"""E4-E7: compute every value's prediction and compare it with its key's triggers (table `values`)."""

import polars.selectors as cs

from ff_memories import tables
from ff_memories.base.parameters import Execution, Input, Output, Shard, Wildcard
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.tokenizer import folded, never_trained, read_types
from ff_memories.model.loading import load_model
from ff_memories.paper.keys import memory_selection, trigger_table
from ff_memories.paper.values import predictions


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    triggers: Input,
    dictionary: Input | None,
    values: Output,
    execution: Execution,
    model: Wildcard = "",
    shard: Shard = (1, 1),
) -> None:
    """Predict a shard of the values.

    Args:
        model: the folder of a model of the baselines, whose agreement is not counted by classes of tokens also
    """
    options, decoder = config.values, load_model(weights, description, execution, config.precision)
    decoder.vocabulary.leave_out(never_trained(dictionary))
    vocabulary = decoder.vocabulary.reading(options.projection, options.projection_seed)
    folds = None if dictionary is None or model else folded(read_types(dictionary))
    text = store.read(corpus)
    trigger_rows = trigger_table.read(triggers, decoder, text, decoder.precision)
    asked = predictions.keys_of_shard(decoder, memory_selection.of_model(config.looked_at, decoder, config), shard)
    predicted = predictions.table(decoder, vocabulary, trigger_rows, text, options, asked, folds)
    if model and not never_trained(dictionary):  # both choices of values.types have the same numbers: one is kept
        predicted = predicted.drop(cs.ends_with(f"_{predictions.other(options.types)}"))
    tables.write(predicted, values, decoder.precision, decoder.neurons)
