"""E4-E7: what every value predicts, and whether its key's triggers are followed by it (the `values` table)."""

import argparse

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.memories import imported_triggers, values
from ff_memories.steps.common import Configured, config_argument, load_decoder, model_arguments


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    model_arguments(parser)
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--triggers", required=True, help="table")
    parser.add_argument("--values", required=True, help="table to write")


def run(args: Configured) -> None:
    options, decoder = args.config.values, load_decoder(args)
    vocabulary = decoder.vocabulary.reading(options.projection, options.projection_seed)
    corpus = store.read(args.corpus)
    found = imported_triggers.triggers(args.triggers, decoder.description, corpus)
    tables.write(values.table(decoder, vocabulary, found, corpus, options.target), args.values)
