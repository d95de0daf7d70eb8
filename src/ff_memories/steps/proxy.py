"""E2: find patterns in the triggers of random keys with the automatic proxy, and measure the proxy's quality."""

import polars as pl
import torch

from ff_memories import tables
from ff_memories.base.annotators import ANNOTATOR
from ff_memories.base.parameters import Input, Output
from ff_memories.base.seeds import generator
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.types import check_dictionary, read_types
from ff_memories.memories.search import chosen
from ff_memories.model.loading import on_cpu
from ff_memories.patterns import sample, scoring
from ff_memories.patterns.automatic import proxy, quality


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    triggers: Input,
    dictionary: Input,
    annotations: Output,
    labels: Output,
    scores: Output,
    counts: Output,
) -> None:
    """Annotate the sampled keys.

    Args:
        labels: file to write: the table pattern_labels
        scores: file to write: the table annotation_scores, with the proxy's quality on this text
    """
    seed, options, found = config.seed, config.patterns, tables.read(triggers)
    text, types = store.read(corpus), read_types(dictionary)
    torch.set_num_threads(1)  # for the same numbers on any machine; the matrices are small
    decoder = on_cpu(weights, description)
    shape, embedding = decoder.description, decoder.embedding.float()
    check_dictionary(dictionary, types, shape.vocab)
    keys = sample.read_keys(found, text, options.keys_per_layer, options.top, seed)
    annotator = proxy.Annotator.of(text, types, embedding, found, seed)
    patterns, labelled = proxy.annotate(annotator, keys)
    looked_at = decoder.signs * chosen.count(config.looked_at, shape.layers, shape.keys)
    reasons = {
        "keys_with_too_few_triggers": looked_at - sample.keys_with_enough(found).height,
        "keys_sampled": len(keys),
        "keys_short_of_the_sample": shape.layers * options.keys_per_layer - len(keys),
        "keys_without_pattern": len(keys) - patterns.select("layer", "key").n_unique(),
        "prefixes_shown": len(labelled),
        "prefixes_short_of_the_sample": len(keys) * options.top - len(labelled),
    }
    tables.write_counts("proxy", reasons, counts)
    tables.write(patterns, annotations, neurons=decoder.neurons)
    tables.write(labelled, labels, neurons=decoder.neurons)
    planted = quality.cases(annotator, text, found, options.top, seed, generator(seed, "planted patterns"))
    rows = [(ANNOTATOR, *row) for row in quality.scores(annotator, planted)]
    rows += [(ANNOTATOR, *row) for row in scoring.of_annotator(patterns, labelled, seed)]
    schema = tables.TABLES["annotation_scores"].columns
    tables.write(pl.DataFrame(rows, schema=schema, orient="row"), scores)
