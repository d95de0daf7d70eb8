"""Compute the paper's measures for an untrained model of the same shape, on a sample of the text.

The tables are made as in the run. ``same_sample`` is the run's own model on that sample, which separates the effect of
the smaller text from that of training.
"""

import json

import polars as pl

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Execution, Input, Output, Wildcard
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.types import read_types
from ff_memories.corpus.words import Words
from ff_memories.memories import composition as compositions
from ff_memories.memories import mutations as mutants
from ff_memories.memories import perplexity as perplexities
from ff_memories.memories import untrained
from ff_memories.memories import values as predictions
from ff_memories.memories.search import chosen as chosen_keys
from ff_memories.memories.search.trigger_table import table as trigger_table
from ff_memories.memories.search.triggers import trigger_examples
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.loading import load_model
from ff_memories.patterns import distance
from ff_memories.patterns.automatic import proxy
from ff_memories.patterns.automatic.embedding import train_counts
from ff_memories.patterns.sample import read_keys


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    dictionary: Input,
    model: Wildcard,
    values: Output,
    mutations: Output,
    examples: Output,
    composition: Output,
    refinement: Output,
    annotations: Output,
    labels: Output,
    distances: Output,
    perplexity: Output,
    execution: Execution,
) -> None:
    """Measure one model.

    Args:
        model: untrained-1, untrained-2, ... (random weights, different in each), or same_sample
        labels: file to write: the table pattern_labels
        distances: file to write: the table distance_labels
        perplexity: file to write: the perplexity on validation sentences, as JSON
    """
    sizes, types = config.baselines, read_types(dictionary)
    text, numbers = untrained.sample(store.read(corpus), config.seed, sizes.sentences)
    own = load_model(weights, description, execution, config.precision)
    decoder = untrained.model_of(model, own, config.seed, weights, description)
    decoder.vocabulary.leave_out(types.never_trained())
    shape, tied, options = decoder.description, config.triggers, config.composition
    looked_at = chosen_keys.of_model(tied.keys, decoder, config)
    best = trigger_examples(
        decoder, text, [(0, text.train)], top=tied.top, positions=tied.positions, per_sentence=tied.per_sentence,
        duplicates=tied.duplicates, batch_tokens=execution.batch_tokens, keys=looked_at,
    )  # fmt: skip
    triggers = tables.conform(trigger_table(best, text), tables.TABLES["triggers"])
    predicted = predictions.table(
        decoder, decoder.vocabulary.reading(config.values.projection, config.values.projection_seed), triggers, text,
        config.values.target, config.values.types, looked_at,
    )  # fmt: skip
    chosen = mutants.sample(
        triggers, shape.layers, decoder.memories,
        keys_per_layer=min(config.mutations.keys_per_layer, sizes.keys_per_layer),
        top=min(config.mutations.top, untrained.MUTATED_TRIGGERS), random=config.mutations.random,
        single_token=config.mutations.single_token, seed=config.seed,
        words=Words.of(text) if config.mutations.unit == "word" else None,
    )  # fmt: skip
    mutated = mutants.mutated_coefficients(decoder, text, chosen.rows, execution.batch_tokens)
    read = untrained.predicted(model, sizes.sentences)
    said = perplexities.perplexity(decoder, text, config.seed, execution.batch_tokens, read)
    said[perplexities.IN_WINDOWS] = perplexities.in_windows(decoder, text, types, read)
    drawn = compositions.sample_examples(
        text.lengths[text.train :], text.train, examples=min(options.examples, sizes.examples),
        sample=options.sample, positions=options.positions, seed=config.seed,
    )  # fmt: skip
    vectors, counts = own.vocabulary.word_vectors().float().cpu(), train_counts(text, len(types))
    made = _composition(decoder, config, text, drawn, predicted, execution)
    # use the run's own annotator for every model: it stands for people, who know what words mean
    keys = read_keys(triggers, text, config.patterns.keys_per_layer, config.patterns.top, config.seed)
    annotator = proxy.Annotator.of(text, types, own.embedding.float().cpu(), triggers, config.seed)
    found, labelled = proxy.annotate(annotator, keys)
    closer = distance.WordCloseness.of(vectors, counts, types.types, config.seed)
    judged = distance.label(distance.compositions(made["refinement"], config.seed), types.types, closer)
    place = numbers[made["examples"]["sentence"].to_numpy()]
    made["examples"] = made["examples"].with_columns(pl.Series("sentence", place))  # numbers in the run's corpus
    for path, frame in (
        (values, predicted), (mutations, mutants.table(chosen.rows, mutated)), (examples, made["examples"]),
        (composition, made["composition"]), (refinement, made["refinement"]), (annotations, found),
        (labels, labelled), (distances, judged),
    ):  # fmt: skip
        neurons = decoder.neurons if "key" in frame.columns else None
        tables.write(frame, path, decoder.precision, neurons)
    write_whole(perplexity, json.dumps(said, indent=1) + "\n")


def _composition(
    decoder: LanguageModel, config: Settings, text: store.Corpus, drawn: pl.DataFrame, predicted: pl.DataFrame,
    execution: Execution,
) -> dict[str, pl.DataFrame]:  # fmt: skip
    """Return the tables ``examples``, ``composition`` and ``refinement`` of the sample."""
    types = config.values.types
    if config.values.projection == "random":  # in the released code, only the agreement script draws projections
        tops = predictions.value_tops(decoder, decoder.vocabulary)
    else:
        decoder.vocabulary = decoder.vocabulary.reading(config.values.projection)
        tops = predictions.every_top(decoder, decoder.vocabulary, predicted, types)
    seen = compositions.observe(
        decoder, text, drawn, tops, layer_prediction=config.composition.layer_prediction,
        memories=config.composition.memories, batch_tokens=execution.batch_tokens,
        residual=config.composition.residual,
    )  # fmt: skip
    return compositions.tables(drawn, seen, text, types)
