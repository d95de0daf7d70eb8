"""Draw what annotators are shown: keys, some of them again, and foils, in a blind order."""

import argparse

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.patterns import annotation_plan
from ff_memories.steps.common import Configured, config_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    parser.add_argument("--triggers", required=True, help="table")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--dictionary", required=True, help="the model's dict.txt")
    parser.add_argument("--out", required=True, metavar="annotation_plan.parquet", help="table to write")


def run(args: Configured) -> None:
    options = args.config.patterns
    corpus, dictionary = store.read(args.corpus), Dictionary.read(args.dictionary)
    shown = annotation_plan.items(
        tables.read(args.triggers), corpus, dictionary, options.keys_per_layer, options.top, args.config.seed
    )
    tables.write(annotation_plan.table(shown), args.out)
