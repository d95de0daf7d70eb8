"""The released code's 'layer' and 'dim' columns at the run's examples (`released_layer`, `released_dim`)."""

import argparse

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.released import columns
from ff_memories.steps.common import load_decoder, model_arguments


def arguments(parser: argparse.ArgumentParser) -> None:
    model_arguments(parser)
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--examples", required=True, help="table")
    parser.add_argument("--released-layer", required=True, help="table to write")
    parser.add_argument("--released-dim", required=True, help="table to write")


def run(args: argparse.Namespace) -> None:
    layer, dim = columns.columns(
        load_decoder(args), store.read(args.corpus), tables.read(args.examples), args.batch_tokens
    )
    tables.write(dim, args.released_dim)
    tables.write(layer, args.released_layer)
