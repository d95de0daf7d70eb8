"""Derive dvc.yaml from the Snakefile, or check that it still follows from it."""

import argparse

from ff_memories.workflow import stages
from ff_memories.workflow.configfile import argument


def arguments(parser: argparse.ArgumentParser) -> None:
    argument(parser)
    parser.add_argument("--check", action="store_true", help="compare, do not write; status 2 where they differ")


def run(args: argparse.Namespace) -> None:
    if args.check:
        stages.check(args.configfile)
    else:
        print(stages.write(args.configfile))
