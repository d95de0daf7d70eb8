"""E1: merge the shards' lists into the `triggers` table."""

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.errors import UserError
from ff_memories.memories import triggers
from ff_memories.memories.topk import TopTriggers
from ff_memories.steps.common import config_argument, write_counts


def arguments(parser):
    config_argument(parser)
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--shards", required=True, nargs="+", help="the shards' lists")
    parser.add_argument("--triggers", required=True, help="table to write")
    parser.add_argument("--counts", required=True, help="counts to write")


def run(args):
    corpus, options = store.read(args.corpus), args.config.triggers
    classes = torch.from_numpy(triggers.prefix_classes(corpus)) if options.duplicates == "drop" else None
    best = None
    for path in args.shards:
        try:
            codes = load_file(path)["codes"]
        except (OSError, KeyError, SafetensorError) as error:
            raise UserError(f"{path}: not a readable shard ({error})", "remove it and run snakemake again") from None
        part = TopTriggers(*codes.shape, classes=classes)
        part.codes.copy_(codes)
        if best is None:
            best = part
        else:
            best.merge(part)
    filled = (best.codes != 0).sum(-1)
    lengths = corpus.lengths[: corpus.train]
    low, high = triggers.POSITIONS[options.positions]
    available = (lengths + high - low + 1).clip(min=0)
    n = int((available > 0).sum() if options.per_sentence == "best" else available.sum())
    if n < options.top:
        what = "sentences with a prefix" if options.per_sentence == "best" else "prefixes"
        raise UserError(
            f"triggers.top is {options.top}, and the training text has {n} {what}",
            "lower triggers.top (and mutations.top, patterns.top), or give more text",
        )
    reasons = {
        "keys": filled.numel(),
        "keys_that_never_fire": int((filled == 0).sum()),
        "keys_with_fewer_triggers": int(((filled > 0) & (filled < options.top)).sum()),
        "places_unfilled": int((options.top - filled).sum()),
        "sentences_without_prefix": int((available == 0).sum()),
    }
    write_counts("triggers", reasons, args.counts)
    tables.write(triggers.table(best.codes, corpus), args.triggers)
