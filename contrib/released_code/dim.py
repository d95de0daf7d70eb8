"""Write the 'dim' columns of the last layer as the released code's data frame: one row per sentence, mostly lists.

The suffix of OUT sets the format: .pkl (a pandas data frame, as in the released code), .parquet or .jsonl.
"""

import argparse

from contrib.released_code import data_frames, layer

arguments = layer.arguments


def run(args: argparse.Namespace) -> None:
    layer.write(args, data_frames.dim_frame)
