"""Tell Snakemake which files are up to date, by content. Run it after `dvc pull` or `dvc checkout`."""

import argparse

from ff_memories.workflow.records import restore
from ff_memories.workflow.runs import opening

arguments = opening.argument


def run(args: argparse.Namespace) -> None:
    restored = restore(opening.opened(args.configfile))
    if restored.rebuilt:
        print("rebuilt: " + ", ".join(restored.rebuilt))
    if restored.new:
        print(f"computed here and not recorded yet: {', '.join(restored.new)}\n  record it with: ff-memories adopt")
    for stage, why in sorted(restored.due.items()):
        print(f"to be rerun: {stage} ({why})")
    if not restored.due:
        print("up to date")
