"""Compute the gallery's tables: coefficients along triggers, and tokens that values promote (`shading`, `promoted`)."""

import polars as pl

from ff_memories import tables
from ff_memories.base.parameters import Execution, Input, Output
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.memories import chosen, imported_triggers
from ff_memories.memories import promoted as promotion
from ff_memories.memories import shading as shades
from ff_memories.model.loading import load_model


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    triggers: Input,
    values: Input,
    shading: Output,
    promoted: Output,
    execution: Execution,
) -> None:
    decoder, text = load_model(weights, description, execution, config.precision), store.read(corpus)
    found = imported_triggers.triggers(triggers, decoder, text, decoder.precision)
    predicted, shape = tables.read(values), decoder.description
    if config.gallery.keys is not None:
        shown = chosen.in_gallery(config.gallery.keys, predicted, shape.layers, shape.keys, config.seed)
        found, predicted = chosen.rows(shown, found), chosen.rows(shown, predicted)
    shaded = found.filter(pl.col("rank") <= config.gallery.shaded)
    tables.write(
        shades.table(decoder, text, shaded, execution.batch_tokens), shading, decoder.precision, decoder.neurons
    )
    reading = decoder.vocabulary.reading(config.values.projection, config.values.projection_seed)
    tables.write(
        promotion.table(decoder, reading, predicted, config.gallery.tokens),
        promoted,
        decoder.precision,
        decoder.neurons,
    )
