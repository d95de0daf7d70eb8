"""Write the 'layer' columns as the released code's data frame: one row per sentence, lists over layers.

The suffix of OUT sets the format: .pkl (a pandas data frame, as in the released code), .parquet or .jsonl.
"""

import argparse
from pathlib import Path

from contrib.released_code import columns, data_frames
from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.corpus.text import of_sentences
from ff_memories.declaration import add_options, execution
from ff_memories.model.loading import load_decoder


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", required=True, type=Path, help="model.safetensors")
    parser.add_argument("--description", required=True, type=Path, help="model.json")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--examples", required=True, help="the run's table examples")
    parser.add_argument("--sentences", required=True, help="the run's table sentences; its text files must be here")
    parser.add_argument(
        "--distributions",
        action="store_true",
        help="add output_dist_vals, the model's output over the whole vocabulary. It takes four bytes per example and "
        "token type",
    )
    add_options(parser)
    parser.add_argument("--out", required=True, help="file to write: .pkl, .parquet or .jsonl")


def run(args: argparse.Namespace) -> None:
    write(args, data_frames.layer_frame)


def write(args: argparse.Namespace, frame_of: data_frames.Arrangement) -> None:
    """Compute the columns on the run's examples, and write them as ``frame_of`` arranges them."""
    data_frames.check_name(args.out)
    tables.require_precision(args.examples, "float32")
    examples, texts = tables.read(args.examples), of_sentences(tables.read(args.sentences))
    decoder, corpus = load_decoder(args.weights, args.description, execution(args)), store.read(args.corpus)
    found = columns.columns(decoder, corpus, examples, args.batch_tokens)
    distributions = None
    if args.distributions:
        distributions = columns.output_distributions(decoder, corpus, examples, args.batch_tokens)
    data_frames.write(frame_of(*found, examples, texts, distributions), args.out)
