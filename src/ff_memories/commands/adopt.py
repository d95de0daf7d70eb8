"""Record Snakemake's outputs in dvc.lock and DVC's cache. Run it after `snakemake` and before `dvc push`."""

import argparse

from ff_memories.workflow import opening
from ff_memories.workflow.records import adopt

arguments = opening.argument


def run(args: argparse.Namespace) -> None:
    print("adopted: " + (", ".join(adopt(opening.opened(args.configfile))) or "nothing new"))
