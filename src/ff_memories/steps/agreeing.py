"""E10 by layer: stop words and short prefixes where a memory agrees with its layer, against all (`agreeing`)."""

import argparse

from ff_memories import tables
from ff_memories.claims import measures, register
from ff_memories.claims.stop_words import stop_words
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.steps.common import Configured, config_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    parser.add_argument("--composition", required=True, help="table")
    parser.add_argument("--examples", required=True, help="table")
    parser.add_argument("--dictionary", required=True, help="the checkpoint's dict.txt")
    parser.add_argument("--agreeing", required=True, help="table to write")


def run(args: Configured) -> None:
    options = args.config.composition
    cases = measures.agreeing_cases(
        tables.read(args.composition),
        tables.read(args.examples),
        stop_words(options.stop_words, Dictionary.read(args.dictionary)),
        "output_top" if options.layer_prediction == "output" else "ffn_top",
    )
    short = next(claim.parameters["shorter_than"] for claim in register() if "shorter_than" in claim.parameters)
    tables.write(measures.agreeing_by_layer(cases, short), args.agreeing)
