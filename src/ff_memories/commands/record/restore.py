"""Tell Snakemake which files are up to date, by content. Run it after `dvc pull` or `dvc checkout`."""

import argparse

from ff_memories.workflow.records import restore
from ff_memories.workflow.runs import opening


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)


def run(args: argparse.Namespace) -> None:
    found = restore(opening.opened(args.configfile))
    if found.again:
        print("rebuilt: " + ", ".join(found.again))
    if found.new:
        print("computed here and not recorded yet: " + ", ".join(found.new) + "\n  record it with: ff-memories adopt")
    for stage, why in sorted(found.due.items()):
        print(f"to be rerun: {stage} ({why})")
    if not found.due:
        print("up to date")
