"""E14: label with the automatic proxy whether last-layer compositions are related to what they compose."""

import torch

from ff_memories import tables
from ff_memories.base.parameters import Input, Output
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.types import check_dictionary, read_types
from ff_memories.model.loading import on_cpu
from ff_memories.patterns import distance
from ff_memories.patterns.automatic.embedding import train_counts


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    examples: Input,
    refinement: Input,
    dictionary: Input,
    distances: Output,
) -> None:
    """Label the compositions.

    Args:
        distances: file to write: the table distance_labels
    """
    refined = tables.read(refinement)
    distance.check_examples(refined, tables.read(examples))
    text, types = store.read(corpus), read_types(dictionary)
    torch.set_num_threads(1)  # for the same numbers on any machine
    decoder = on_cpu(weights, description)
    check_dictionary(dictionary, types, decoder.description.vocab)
    vectors, counts = decoder.vocabulary.word_vectors(), train_counts(text, len(types))
    closer = distance.WordCloseness.of(vectors, counts, types.types, config.seed)
    cases = distance.compositions(refined, config.seed)
    tables.write(distance.label(cases, types.types, closer), distances)
