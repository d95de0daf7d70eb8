"""E3: memory coefficients of triggers without their first, last or a random token (the `mutations` table)."""

import argparse

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.memories import imported_triggers, mutations
from ff_memories.steps.common import Configured, config_argument, load_decoder, model_arguments, write_counts


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    model_arguments(parser)
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--triggers", required=True, help="table")
    parser.add_argument("--mutations", required=True, help="table to write")
    parser.add_argument("--counts", required=True, help="counts to write")


def run(args: Configured) -> None:
    options, corpus, decoder = args.config.mutations, store.read(args.corpus), load_decoder(args)
    shape = decoder.description
    chosen = mutations.sample(
        imported_triggers.triggers(args.triggers, shape, corpus),
        shape.layers,
        shape.keys,
        keys_per_layer=options.keys_per_layer,
        top=options.top,
        random=options.random,
        single_token=options.single_token,
        seed=args.config.seed,
    )
    mutated = mutations.mutated_coefficients(decoder, corpus, chosen.rows, args.batch_tokens)
    write_counts("mutations", chosen.counts, args.counts)
    tables.write(mutations.table(chosen.rows, mutated), args.mutations)
