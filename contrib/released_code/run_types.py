"""The token types of a run that a command knows by its tables alone."""

import argparse
from pathlib import Path

from ff_memories.corpus.tokenizer import Types, read_types


def argument(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the token types."""
    parser.add_argument(
        "--dictionary",
        type=Path,
        help="token types of a run with a model of `transformers`: its model/types.json; default: the one in the run's "
        "folder, where its tables are",
    )


def of(args: argparse.Namespace) -> Types | None:
    """Return a tokenizer, which tells how many tokens a sentence has; ``None`` where tokens are words.

    Args:
        args: with ``dictionary`` and ``sentences``, the path of the run's table.

    Raises:
        UserError: the types cannot be read.
    """
    if args.dictionary is not None:
        return read_types(args.dictionary)
    beside = Path(args.sentences).parent.parent / "model" / "types.json"
    return read_types(beside) if beside.exists() else None
