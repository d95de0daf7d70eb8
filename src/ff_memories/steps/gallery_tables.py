"""Compute the gallery's tables.

Coefficients along triggers (`shading`, `levels`) and in a random sample (`histogram`, `samples`), tokens that values
promote and demote (`promoted`, `demoted`), and memories with similar keys and values (`similar`).
"""

import polars as pl

from ff_memories import tables
from ff_memories.base.parameters import Execution, Input, Output, Shard
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.gallery import coefficient_sample
from ff_memories.gallery import promoted as promotion
from ff_memories.gallery import shading as shades
from ff_memories.gallery import similar as similarity
from ff_memories.model.loading import load_model
from ff_memories.paper.keys import memory_selection, trigger_table


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    triggers: Input,
    values: Input,
    causal: Input,
    shading: Output,
    levels: Output,
    promoted: Output,
    demoted: Output,
    histogram: Output,
    samples: Output,
    similar: Output,
    execution: Execution,
    shard: Shard = (1, 1),
) -> None:
    options = config.gallery
    decoder, text = load_model(weights, description, execution, config.precision), store.read(corpus)
    rows = trigger_table.read(triggers, decoder, text, decoder.precision)
    predicted, shape = tables.read(values), (decoder.description.layers, decoder.description.keys)
    if options.keys is not None:
        shown = memory_selection.shown(options.keys, predicted, tables.read(causal), *shape, config.seed)
        rows, predicted = memory_selection.rows(shown, rows), memory_selection.rows(shown, predicted)
    shaded = rows.filter(pl.col("rank") <= (max(options.shaded, options.triggers) if options.shaded else 0))
    shaded = shades.of_shard(shaded, execution.batch_tokens, shard)
    along = shades.table(decoder, text, shaded, execution.batch_tokens)
    reading = decoder.vocabulary.reading(config.values.projection, config.values.projection_seed)
    predicted_here, length = promotion.of_shard(predicted, shard), config.values.length
    most, least = promotion.tables(decoder, reading, predicted_here, options.tokens, length)
    bins, weaker = coefficient_sample.tables(
        decoder, text, rows, options.sampled, config.triggers.positions, config.seed, execution.batch_tokens, shard
    )
    for table, path in (
        (along.filter(pl.col("rank") <= options.shaded), shading),
        (shades.levels(along.filter(pl.col("rank") <= options.triggers), rows), levels),
        (most, promoted),
        (least, demoted),
        (bins, histogram),
        (weaker, samples),
        (similarity.table(decoder, predicted, options.similar, shard), similar),
    ):
        tables.write(table, path, decoder.precision, decoder.neurons)
