"""Derive dvc.yaml from the Snakefile, or check that it still follows from it."""

from pathlib import Path

from ff_memories import stages


def arguments(parser):
    parser.add_argument("--check", action="store_true", help="compare, do not write; status 2 where they differ")
    parser.add_argument("--out", type=Path, default=Path("dvc.yaml"))


def run(args):
    new = stages.text()
    if args.check:
        stages.check(args.out, new)
    else:
        args.out.write_text(new)
