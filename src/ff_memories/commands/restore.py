"""Tell Snakemake which files are up to date, by content. Run it after `dvc pull` or `dvc checkout`."""

import argparse
from textwrap import shorten

from ff_memories.workflow import opening
from ff_memories.workflow.records import restore

arguments = opening.argument


def run(args: argparse.Namespace) -> None:
    rebuilt, new, due = restore(opening.opened(args.configfile))
    if rebuilt:
        print("rebuilt: " + ", ".join(rebuilt))
    if new:
        print(f"computed here and not recorded yet: {', '.join(new)}\n  record it with: ff-memories adopt")
    for stage, why in due.items():
        print(f"to be rerun: {stage} ({shorten(why, 200, placeholder=' and so on')})")
    if not due:
        print("up to date")
