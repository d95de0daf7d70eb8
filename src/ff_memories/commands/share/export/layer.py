"""Export the 'layer' columns as the released code's data frame: one row per sentence, lists over layers.

The suffix of OUT sets the format: .pkl (a pandas data frame, as in the released code), .parquet or .jsonl.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.corpus.texts import of_sentences
from ff_memories.declaration import add_execution, execution


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--released-layer", required=True, help="the table released_layer of a run with fidelity: released"
    )
    parser.add_argument("--examples", required=True, help="the run's table examples")
    parser.add_argument("--sentences", required=True, help="the run's table sentences; its text files must be here")
    parser.add_argument(
        "--distributions",
        action="store_true",
        help="add output_dist_vals, the model's output over the whole vocabulary. This runs the model again, so give "
        "--weights, --description and --corpus. It takes four bytes per example and token type",
    )
    parser.add_argument("--weights", type=Path, help="model.safetensors")
    parser.add_argument("--description", type=Path, help="model.json")
    parser.add_argument("--corpus", help="corpus.safetensors")
    add_execution(parser)
    parser.add_argument("--out", required=True, help="file to write: .pkl, .parquet or .jsonl")


def run(args: argparse.Namespace) -> None:
    from ff_memories.released import data_frames  # torch takes a second to load

    frame = data_frames.layer_frame(tables.read(args.released_layer), *examples_of(args))
    data_frames.write(frame, args.out)


def examples_of(args: argparse.Namespace) -> tuple[pl.DataFrame, dict[int, str], np.ndarray | None]:
    """Return the examples, their sentences' texts and, if requested, the model's output distributions."""
    examples = tables.read(args.examples)
    return examples, of_sentences(tables.read(args.sentences)), _distributions(args, examples)


def _distributions(args: argparse.Namespace, examples: pl.DataFrame) -> np.ndarray | None:
    if not args.distributions:
        return None
    if missing := [f"--{name}" for name in ("weights", "description", "corpus") if getattr(args, name) is None]:
        raise UserError(f"--distributions: runs the model again and needs {' and '.join(missing)}")
    from ff_memories.corpus import store
    from ff_memories.model.loading import load_decoder
    from ff_memories.released.columns import output_distributions

    decoder = load_decoder(args.weights, args.description, execution(args))
    return output_distributions(decoder, store.read(args.corpus), examples, args.batch_tokens)
