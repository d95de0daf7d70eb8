"""Measure a model of the baselines: one shard of section 5's examples, and of its perplexity's sentences."""

import json

import polars as pl

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Execution, Input, Inputs, Output, Shard, Wildcard
from ff_memories.base.sharding import shard_of
from ff_memories.config import Settings
from ff_memories.corpus.types import read_types
from ff_memories.memories import composition as compositions
from ff_memories.memories import perplexity, untrained
from ff_memories.memories import values as predictions


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    dictionary: Input,
    values: Inputs,
    model: Wildcard,
    examples: Output,
    composition: Output,
    refinement: Output,
    surprises: Output,
    execution: Execution,
    shard: Shard = "1-of-1",
) -> None:
    """Measure one shard.

    Args:
        values: the shards of the model's table values
        model: as of baseline-triggers
        surprises: file to write: the surprise of every sentence and window of the perplexity, as JSON
    """
    measured = untrained.Measured.of(model, config, weights, description, corpus, dictionary, execution)
    decoder, text, options, own = measured.decoder, measured.text, config.composition, shard_of(shard)
    sentences = untrained.predicted(model, config.baselines.sentences)
    said = {
        "sentences": perplexity.sentence_surprises(decoder, text, config.seed, execution.batch_tokens, sentences, own),
        "windows": perplexity.window_surprises(decoder, text, read_types(dictionary), sentences, own),
    }
    drawn = compositions.sample_examples(
        text.lengths[text.train :],
        text.train,
        examples=min(options.examples, config.baselines.examples),
        sample=options.sample,
        positions=options.positions,
        seed=config.seed,
    )
    if config.values.projection == "random":  # in the released code, only the agreement script draws projections
        tops = predictions.value_tops(decoder, decoder.vocabulary)
    else:
        decoder.vocabulary = decoder.vocabulary.reading(config.values.projection)
        told = pl.concat([tables.read(path) for path in values])
        tops = predictions.every_top(decoder, decoder.vocabulary, told, config.values.types)
    drawn = compositions.of_shard(drawn, execution.batch_tokens, own)
    seen = compositions.observe(
        decoder,
        text,
        drawn,
        tops,
        layer_prediction=options.layer_prediction,
        memories=options.memories,
        batch_tokens=execution.batch_tokens,
        residual=options.residual,
    )
    made = compositions.tables(drawn, seen, text, config.values.types)
    place = measured.numbers[made["examples"]["sentence"].to_numpy()]
    made["examples"] = made["examples"].with_columns(pl.Series("sentence", place))  # numbers in the run's corpus
    for name, path in (("examples", examples), ("composition", composition), ("refinement", refinement)):
        tables.write(made[name], path, decoder.precision)
    write_whole(surprises, json.dumps(said) + "\n")
