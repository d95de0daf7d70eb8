"""E2 and E14: label triggers and last-layer compositions with the automatic proxy, and measure the proxy's quality.

The annotator is the run's own model for every model of the baselines too: it stands for people, who know what words
mean.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import torch

from ff_memories import tables
from ff_memories.base.draws import generator
from ff_memories.base.parameters import Input, Output, Wildcard
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.types import check_dictionary, read_types
from ff_memories.memories.search import memory_selection
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.loading import on_cpu
from ff_memories.patterns import distance, sample, scoring
from ff_memories.patterns.automatic import proxy, quality
from ff_memories.patterns.automatic.embedding import train_counts
from ff_memories.tables.annotation import ANNOTATOR


@dataclass(frozen=True)
class Labelled:
    """What does not depend on section 5's compositions: the keys' labels, and what compositions are labelled with."""

    patterns: pl.DataFrame
    labels: pl.DataFrame
    scores: pl.DataFrame
    reasons: dict[str, int]
    closer: distance.WordCloseness
    types: list[str]
    neurons: int | None


Kept = dict[tuple[Any, ...], Labelled]


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
    *,
    kept: Kept | None = None,
) -> None:
    """Annotate the sampled keys and compositions.

    Args:
        weights: of the run's own model
        labels: file to write: the table pattern_labels
        distances: file to write: the table distance_labels
        scores: file to write: the table annotation_scores, with the proxy's quality on this text
        model: the folder of a model of the baselines, on whose triggers the proxy's quality is not measured
        kept: what was labelled before, of other compositions of the same triggers
    """
    refined = tables.read(refinement)
    distance.check_examples(refined, tables.read(examples))
    torch.set_num_threads(1)  # for the same numbers on any machine; the matrices are small
    same = (weights, corpus, triggers, dictionary, config.seed, config.patterns.model_dump_json())
    kept = {} if kept is None else kept
    if same not in kept:
        kept[same] = _labelled(config, on_cpu(weights, description), corpus, triggers, dictionary, measured=not model)
    found = kept[same]
    judged = distance.label(distance.compositions(refined, config.seed), found.types, found.closer)
    tables.write_counts("proxy", found.reasons, counts)
    tables.write(found.patterns, annotations, neurons=found.neurons)
    tables.write(found.labels, labels, neurons=found.neurons)
    tables.write(judged, distances)
    tables.write(found.scores, scores)


def _labelled(
    config: Settings, own: LanguageModel, corpus: Path, triggers: Path, dictionary: Path, measured: bool
) -> Labelled:
    """Label the sampled keys; ``measured``: measure the proxy's quality on planted patterns too."""
    seed, options, found = config.seed, config.patterns, tables.read(triggers)
    text, types, shape = store.read(corpus), read_types(dictionary), own.description
    check_dictionary(dictionary, types, shape.vocab)
    keys = sample.read_keys(found, text, options.keys_per_layer, options.top, seed)
    annotator = proxy.Annotator.of(text, types, own.embedding.float(), found, seed)
    patterns, labelled = proxy.annotate(annotator, keys)
    looked_at = own.signs * memory_selection.count(config.looked_at, shape.layers, shape.keys)
    reasons = {
        "keys_with_too_few_triggers": looked_at - sample.keys_with_enough(found).height,
        "keys_sampled": len(keys),
        "keys_short_of_the_sample": shape.layers * options.keys_per_layer - len(keys),
        "keys_without_pattern": len(keys) - patterns.select("layer", "key").n_unique(),
        "prefixes_shown": len(labelled),
        "prefixes_short_of_the_sample": len(keys) * options.top - len(labelled),
    }
    rows = [(ANNOTATOR, *row) for row in scoring.of_annotator(patterns, labelled, seed)]
    if measured:
        planted = quality.cases(annotator, text, found, options.top, seed, generator(seed, "planted patterns"))
        rows = [*((ANNOTATOR, *row) for row in quality.scores(annotator, planted)), *rows]
    scores = pl.DataFrame(rows, schema=tables.TABLES["annotation_scores"].columns, orient="row")
    vectors, counts = own.vocabulary.word_vectors().float(), train_counts(text, len(types))
    closer = distance.WordCloseness.of(vectors, counts, types.types, seed)
    return Labelled(patterns, labelled, scores, reasons, closer, types.types, own.neurons)
