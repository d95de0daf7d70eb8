"""What the gallery shows of the model: coefficients along triggers, tokens that values promote (two tables)."""

import argparse

import polars as pl

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.memories import imported_triggers, promoted, shading
from ff_memories.steps.common import Configured, config_argument, load_decoder, model_arguments


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    model_arguments(parser)
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--triggers", required=True, help="table")
    parser.add_argument("--values", required=True, help="table")
    parser.add_argument("--shading", required=True, help="table to write")
    parser.add_argument("--promoted", required=True, help="table to write")


def run(args: Configured) -> None:
    decoder, corpus, config = load_decoder(args), store.read(args.corpus), args.config
    triggers = imported_triggers.triggers(args.triggers, decoder.description, corpus)
    shaded = triggers.filter(pl.col("rank") <= config.gallery.shaded)
    tables.write(shading.table(decoder, corpus, shaded, args.batch_tokens), args.shading)
    reading = decoder.vocabulary.reading(config.values.projection, config.values.projection_seed)
    found = promoted.table(decoder, reading, tables.read(args.values), config.gallery.tokens)
    tables.write(found, args.promoted)
