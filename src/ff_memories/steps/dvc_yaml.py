"""Derive dvc.yaml from the Snakefile, or check that it still follows from it."""

from ff_memories import stages
from ff_memories.artefacts.run import argument


def arguments(parser):
    argument(parser)
    parser.add_argument("--check", action="store_true", help="compare, do not write; status 2 where they differ")


def run(args):
    if args.check:
        stages.check(args.configfile)
    else:
        print(stages.write(args.configfile))
