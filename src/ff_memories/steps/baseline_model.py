"""Join the measures of a model of the baselines, and label its triggers and predictions with the automatic proxy.

The tables are made as in the run, but for an untrained model of the same shape and on a sample of the text.
``same_sample`` is the run's own model on that sample, which separates the effect of the smaller text from that of
training.
"""

import json

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Execution, Input, Inputs, Output
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.types import read_types
from ff_memories.memories import perplexity as perplexities
from ff_memories.memories import untrained
from ff_memories.memories.search.shards import merged
from ff_memories.memories.search.trigger_table import table as trigger_table
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
    lists: Inputs,
    shards: Inputs,
    surprises: Inputs,
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
    """Join one model's measures.

    Args:
        lists: the model's trigger lists
        shards: the shards of the model's tables
        surprises: the surprise of every sentence and window of the perplexity, as JSON
        labels: file to write: the table pattern_labels
        distances: file to write: the table distance_labels
        perplexity: file to write: the perplexity on validation sentences, as JSON
    """
    for path in (values, mutations, examples, composition, refinement):
        tables.join([part for part in shards if part.name == path.name], path)
    types, whole = read_types(dictionary), store.read(corpus)
    text, _ = untrained.sample(whole, config.seed, config.baselines.sentences)
    triggers = tables.conform(trigger_table(merged(lists), text), tables.TABLES["triggers"])
    # use the run's own annotator for every model: it stands for people, who know what words mean
    own = load_model(weights, description, execution, config.precision)
    keys = read_keys(triggers, text, config.patterns.keys_per_layer, config.patterns.top, config.seed)
    annotator = proxy.Annotator.of(text, types, own.embedding.float().cpu(), triggers, config.seed)
    found, labelled = proxy.annotate(annotator, keys)
    vectors, counts = own.vocabulary.word_vectors().float().cpu(), train_counts(text, len(types))
    closer = distance.WordCloseness.of(vectors, counts, types.types, config.seed)
    judged = distance.label(distance.compositions(tables.read(refinement), config.seed), types.types, closer)
    for frame, path in ((found, annotations), (labelled, labels), (judged, distances)):
        tables.write(frame, path, own.precision, own.neurons if "key" in frame.columns else None)
    said = [json.loads(path.read_text(encoding="utf-8")) for path in surprises]
    by = lambda kind: {int(unit): tuple(surprise) for part in said for unit, surprise in part[kind].items()}
    read = perplexities.of_sentences(by("sentences"))
    read[perplexities.IN_WINDOWS] = perplexities.of_windows(by("windows"), own)
    write_whole(perplexity, json.dumps(read, indent=1) + "\n")
