"""E8-E13: observe memories and layers on validation prefixes (tables `examples`, `composition`, `refinement`)."""

from functools import partial

import polars as pl

from ff_memories import tables
from ff_memories.base.parameters import AnyInputs, Execution, Input, Output, Shard
from ff_memories.config import Settings
from ff_memories.corpus import sample as samples
from ff_memories.corpus import store
from ff_memories.corpus.text import of_sentences
from ff_memories.corpus.tokenizer import never_trained, read_types
from ff_memories.model.loading import load_model
from ff_memories.paper.layers import composition as compositions
from ff_memories.paper.values.predictions import every_top, value_tops


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    dictionary: Input | None,
    values: Input,
    sample: AnyInputs,
    sentences: AnyInputs,
    examples: Output,
    composition: Output,
    refinement: Output,
    counts: Output,
    execution: Execution,
    shard: Shard = (1, 1),
) -> None:
    """Observe every layer at a shard of the sample's prefixes.

    Args:
        sample: the file composition.sample_file, if the config names one
        sentences: the table sentences, if a sample is given
    """
    options, text = config.composition, store.read(corpus)
    decoder = load_model(weights, description, execution, config.precision)
    if sample:
        validation = tables.read(sentences[0]).filter(pl.col("split") == "validation")
        tokenizer = read_types(dictionary) if dictionary is not None and dictionary.suffix == ".json" else None
        prefixes = samples.read(sample[0], of_sentences(validation, tokenizer), text.lengths)
    else:
        prefixes = compositions.sample_examples(
            text.lengths[text.train :],
            text.train,
            examples=options.examples,
            sample=options.sample,
            positions=options.positions,
            seed=config.seed,
        )
    if config.values.projection == "random":  # in the released code, only the agreement script draws projections
        decoder.vocabulary.leave_out(never_trained(dictionary))
        tops = value_tops(decoder, decoder.vocabulary)
        tops_among: compositions.Tops = lambda tokens: tops
    else:
        values_table = tables.read(values)
        if len(values_table) < decoder.description.layers * decoder.memories:  # then the others are predicted here
            decoder.vocabulary.leave_out(never_trained(dictionary))
        decoder.vocabulary = decoder.vocabulary.reading(config.values.projection)
        tables.require_precision(values, decoder.precision)
        tops_among = partial(every_top, decoder, decoder.vocabulary, values_table, config.values.types)
    missing = 0 if sample or shard[0] > 1 else options.examples - len(prefixes)  # the first shard counts them
    prefixes = compositions.of_shard(prefixes, execution.batch_tokens, shard)
    seen = compositions.observe(
        decoder,
        text,
        prefixes,
        tops_among,
        layer_prediction=options.layer_prediction,
        memories=options.memories,
        batch_tokens=execution.batch_tokens,
        residual=options.residual,
        types=config.values.types,
    )
    frames = compositions.tables(prefixes, seen, text)
    if text.numbers is not None:  # sentences of a sample have their numbers in the run's corpus
        numbers = text.numbers[frames["examples"]["sentence"].to_numpy()]
        frames["examples"] = frames["examples"].with_columns(pl.Series("sentence", numbers))
    tables.write_counts("composition", compositions.reasons(frames["refinement"], len(prefixes), missing), counts)
    for path, name in ((examples, "examples"), (composition, "composition"), (refinement, "refinement")):
        tables.write(frames[name], path, decoder.precision)
