"""Check the triggers of named keys against what the paper shows of them (G6)."""

import argparse
import json

from ff_memories import tables
from ff_memories.audit import golden
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.inputs import registry


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", required=True, help="the checkpoint's name in the registry")
    parser.add_argument("--registry", help="another registry of sources")
    parser.add_argument("--dictionary", required=True, help="dict.txt")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--triggers", required=True, help="table")
    parser.add_argument("--out", required=True, help="what was found, as JSON; written only if all is as known")


def run(args: argparse.Namespace) -> None:
    source = registry.source(args.source, args.registry, "model")
    known = golden.expected(registry.golden_file(source, args.registry))
    corpus, dictionary = store.read(args.corpus), Dictionary.read(args.dictionary)
    last = lambda sentence, position: int(corpus.sentence(sentence)[position - 1]) if position else None
    found = golden.endings(tables.read(args.triggers), last, dictionary, known)
    if wrong := [at for at in found if at["found"] < at["share"]]:
        lines = "\n  ".join(
            f"key {at['key']} of layer {at['layer']}: {at['found']:.0%} of {at['n']} triggers end in "
            f"{' or '.join(at['words'])}, at least {at['share']:.0%} are known to (G6)"
            for at in wrong
        )
        raise UserError(
            f"the triggers are not those of {args.source}\n  {lines}",
            "look at the text and at triggers.positions; sources.golden: off skips this check",
        )
    write_whole(args.out, json.dumps(found, indent=1, sort_keys=True) + "\n")
