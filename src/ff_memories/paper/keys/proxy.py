"""E2 and E14: label triggers and last-layer compositions with the automatic proxy, and measure the proxy's quality.

The annotator is the run's own model for every model of the baselines too: it stands for people, who know what words
mean.
"""

import polars as pl
import torch

from ff_memories import tables
from ff_memories.annotate import distance, proxy, scoring, semantic, study
from ff_memories.annotate.words import train_counts
from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Input, Output, Wildcard
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.tokenizer import read_types
from ff_memories.model.loading import read_model
from ff_memories.paper.keys import memory_selection
from ff_memories.tables.annotation import ANNOTATOR


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    triggers: Input,
    examples: Input,
    refinement: Input,
    dictionary: Input,
    annotations: Output,
    labels: Output,
    distances: Output,
    scores: Output,
    counts: Output,
    model: Wildcard = "",
) -> None:
    """Annotate the sampled keys and compositions.

    Args:
        weights: of the run's own model
        labels: file to write: the table pattern_labels
        distances: file to write: the table distance_labels
        scores: file to write: the table annotation_scores, with the proxy's quality on this text
        model: the folder of a model of the baselines, on whose triggers the proxy's quality is not measured
    """
    refined = tables.read(refinement)
    if refined.join(tables.read(examples), on="example", how="anti").height:
        hint = "make both with the same run of the workflow"
        raise UserError("the refinement table names examples that the examples table does not have", hint)
    torch.set_num_threads(1)  # for the same numbers on any machine; the matrices are small
    decoder, seed, options = read_model(weights, description), config.seed, config.patterns
    text, types, shape = store.read(corpus), read_types(dictionary), decoder.description
    triggered = tables.read(triggers)
    keys = study.read_keys(triggered, text, options.keys_per_layer, options.top, seed)
    annotator = proxy.Annotator(text, types, decoder.embedding.float(), triggered, seed)
    patterns, labelled = proxy.annotate(annotator, keys)
    reasons = {
        "keys_with_too_few_triggers": memory_selection.count(config.looked_at, decoder)
        - study.keys_with_enough(triggered).height,
        "keys_sampled": len(keys),
        "keys_short_of_the_sample": shape.layers * options.keys_per_layer - len(keys),
        "keys_without_pattern": len(keys) - patterns.select("layer", "key").n_unique(),
        "prefixes_shown": len(labelled),
        "prefixes_short_of_the_sample": len(keys) * options.top - len(labelled),
    }
    rows = [(ANNOTATOR, *row) for row in scoring.of_annotator(patterns, labelled, seed)]
    if not model:
        planted = proxy.cases(annotator, text, triggered, options.top, seed, generator(seed, "planted patterns"))
        rows = [*((ANNOTATOR, *row) for row in proxy.scores(annotator, planted)), *rows]
    vectors, occurrences = decoder.vocabulary.word_vectors().float(), train_counts(text, len(types))
    closer = semantic.WordCloseness(vectors, occurrences, types.types, seed)
    judged = distance.label(distance.compositions(refined, seed), types.types, closer)
    tables.write_counts("proxy", reasons, counts)
    tables.write(patterns, annotations, neurons=decoder.neurons)
    tables.write(labelled, labels, neurons=decoder.neurons)
    tables.write(judged, distances)
    tables.write(pl.DataFrame(rows, schema=tables.TABLES["annotation_scores"].columns, orient="row"), scores)
