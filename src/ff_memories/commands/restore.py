"""Tell Snakemake which files are up to date, by content. Run it after dvc pull or dvc checkout."""

import argparse

from ff_memories.workflow.configfile import argument
from ff_memories.workflow.restore import restore


def arguments(parser: argparse.ArgumentParser) -> None:
    argument(parser)


def run(args: argparse.Namespace) -> None:
    found = restore(args.configfile)
    if found.again:
        print("made again: " + ", ".join(found.again))
    if found.new:
        print("made here and not recorded yet: " + ", ".join(found.new) + "\n  to record it: ff-memories adopt")
    for stage, why in sorted(found.due.items()):
        print(f"due again: {stage} ({why})")
    if not found.due:
        print("up to date")
