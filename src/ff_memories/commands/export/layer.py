"""Export the 'layer' columns as the released code's data frame: one row per sentence, lists over layers.

The suffix of OUT says how: .pkl (a pandas data frame, as the released code writes it), .parquet or .jsonl.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.corpus.texts import of_sentences
from ff_memories.declaration import add_execution, execution
from ff_memories.released import data_frames


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--released-layer", required=True, help="table; a run with fidelity: released makes it")
    parser.add_argument("--examples", required=True, help="table")
    parser.add_argument("--sentences", required=True, help="table; the command reads the text files that it names")
    parser.add_argument(
        "--distributions", action="store_true",
        help="with output_dist_vals, the model's output over the whole vocabulary: runs the model again, for which "
        "--weights, --description and --corpus are needed; four bytes for each sentence and word",
    )  # fmt: skip
    parser.add_argument("--weights", type=Path, help="model.safetensors")
    parser.add_argument("--description", type=Path, help="model.json")
    parser.add_argument("--corpus", help="corpus.safetensors")
    add_execution(parser)
    parser.add_argument("--out", required=True, help="file to write: .pkl, .parquet or .jsonl")


def run(args: argparse.Namespace) -> None:
    frame = data_frames.layer_frame(tables.read(args.released_layer), *examples_of(args))
    data_frames.write(frame, args.out)


def examples_of(args: argparse.Namespace) -> tuple[pl.DataFrame, dict[int, str], np.ndarray | None]:
    """Return the examples, the texts of their sentences, and the model's output there, if it is asked for."""
    examples = tables.read(args.examples)
    return examples, of_sentences(tables.read(args.sentences)), _distributions(args, examples)


def _distributions(args: argparse.Namespace, examples: pl.DataFrame) -> np.ndarray | None:
    if not args.distributions:
        return None
    if missing := [f"--{name}" for name in ("weights", "description", "corpus") if getattr(args, name) is None]:
        raise UserError(f"--distributions: the model is run again, and {' and '.join(missing)} is not given")
    from ff_memories.corpus import store
    from ff_memories.model.loading import load_decoder
    from ff_memories.released.columns import output_distributions

    decoder = load_decoder(args.weights, args.description, execution(args))
    return output_distributions(decoder, store.read(args.corpus), examples, args.batch_tokens)
