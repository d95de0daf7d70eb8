"""E1: merge the shards' lists into the `triggers` table."""

import argparse
from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.corpus import store
from ff_memories.memories import shards, triggers
from ff_memories.steps.common import Configured, config_argument, write_counts


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--shards", required=True, nargs="+", help="the shards' lists")
    parser.add_argument("--triggers", required=True, help="table to write")
    parser.add_argument("--counts", required=True, help="counts to write")


def run(args: Configured) -> None:
    corpus, options = store.read(args.corpus), args.config.triggers
    best = shards.load(args.shards[0])
    for path in args.shards[1:]:
        best.merge(shards.load(path))
    table = triggers.table(best, corpus)
    if table.is_empty():
        raise UserError(
            "no memory coefficient is positive anywhere in the training text",
            "check that checkpoint, dictionary and text belong together",
        )
    filled = table.group_by("layer", "key").len()["len"].cast(pl.Int64)
    keys = len(best.lists) * best.keys
    reasons = {
        "keys": keys,
        "keys_that_never_fire": keys - len(filled),
        "keys_with_fewer_triggers": int((filled < options.top).sum()),
        "triggers": len(table),
        "triggers_with_the_text_of_a_better_one": triggers.repeated(table, corpus),
        "places_unfilled": keys * options.top - int(filled.sum()),
        "sentences_without_prefix": int((triggers.available(corpus, options.positions) == 0).sum()),
    }
    write_counts("triggers", reasons, args.counts)
    tables.write(table, args.triggers)
    remove_others(args.shards)


def remove_others(shards: list[str]) -> None:
    """Remove what lies beside these shards from a cut into another number of them."""
    keep = {Path(path) for path in shards}
    for folder in {path.parent for path in keep}:
        for path in set(folder.glob("*-of-*.safetensors")) - keep:
            path.unlink()
