"""Write dvc.yaml from the Snakefile, or check that the two agree."""

import argparse

from ff_memories.workflow import stages
from ff_memories.workflow.configfile import argument


def arguments(parser: argparse.ArgumentParser) -> None:
    argument(parser)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with status 2 if they differ")


def run(args: argparse.Namespace) -> None:
    if args.check:
        stages.check(args.configfile)
    else:
        print(stages.write(args.configfile))
