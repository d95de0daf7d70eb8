"""Export the 'dim' columns as the released code's data frame: one row per sentence, lists over dimensions.

The suffix of OUT sets the format: .pkl (a pandas data frame, as in the released code), .parquet or .jsonl.
"""

import argparse

from ff_memories import tables
from ff_memories.commands.share.export import layer as export_layer


def arguments(parser: argparse.ArgumentParser) -> None:
    export_layer.arguments(parser)
    parser.add_argument("--released-dim", required=True, help="the table released_dim of a run with fidelity: released")


def run(args: argparse.Namespace) -> None:
    from ff_memories.released import data_frames  # torch takes a second to load

    layer, dim = tables.read(args.released_layer), tables.read(args.released_dim)
    data_frames.write(data_frames.dim_frame(layer, dim, *export_layer.examples_of(args)), args.out)
