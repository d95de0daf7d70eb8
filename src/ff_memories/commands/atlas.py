"""Compare several models on one page, side by side over relative depth, from their runs' tables alone.

The page has a matrix of claims and models, and a panel per measure with one line per model and its untrained models.
Runs must have read the same text, or forms of one source. The command marks settings that differ.
"""

import argparse
from pathlib import Path


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="finished runs, such as results/demo")
    parser.add_argument("--out", type=Path, default=Path("atlas"), help="folder to write; default: atlas")
    says = "a run's label; default: its name"
    parser.add_argument("--label", action="append", default=[], metavar="RUN=TEXT", help=says)
    says = "colour the lines by a number, such as updates: each run's label, or the number that its name ends with"
    parser.add_argument("--over", metavar="NAME", help=says)
    parser.add_argument("--any-text", action="store_true", help="also compare runs on unrelated texts")


def run(args: argparse.Namespace) -> None:
    from ff_memories.atlas.build import PAGE, build
    from ff_memories.atlas.runs import members

    warnings, notes = build(members(args.runs, args.label, args.over), args.out, args.any_text, args.over)
    print(*(f"caution: {warning}" for warning in warnings), *notes, args.out / PAGE, sep="\n")
