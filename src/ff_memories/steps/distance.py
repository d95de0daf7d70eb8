"""E14 by the automatic proxy: how far the last layer's compositions lie from what they compose."""

import argparse

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.patterns import distance
from ff_memories.patterns.embedding import train_counts
from ff_memories.steps.common import Configured, check_dictionary, config_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--dictionary", required=True, help="the model's dict.txt")
    parser.add_argument("--weights", required=True, help="model.safetensors")
    parser.add_argument("--description", required=True, help="model.json")
    parser.add_argument("--examples", required=True, help="table")
    parser.add_argument("--refinement", required=True, help="table")
    parser.add_argument("--out", required=True, metavar="distance_labels.parquet", help="table to write")


def run(args: Configured) -> None:
    import torch

    from ff_memories.model.decoder import Decoder

    seed, refinement = args.config.seed, tables.read(args.refinement)
    distance.check_examples(refinement, tables.read(args.examples))
    corpus, dictionary = store.read(args.corpus), Dictionary.read(args.dictionary)
    torch.set_num_threads(1)  # the same numbers on any machine
    decoder = Decoder.load(args.weights, args.description)
    check_dictionary(args.dictionary, dictionary, decoder.description.vocab)
    vectors, counts = decoder.vocabulary.word_vectors(), train_counts(corpus, len(dictionary))
    closer = distance.Closeness.of(vectors, counts, dictionary.types, seed)
    cases = distance.compositions(refinement, seed)
    tables.write(distance.label(cases, dictionary.types, closer), args.out)
