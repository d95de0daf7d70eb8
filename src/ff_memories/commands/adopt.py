"""Record Snakemake's outputs in dvc.lock and DVC's cache. Run it after `snakemake` and before `dvc push`."""

import argparse

from ff_memories.workflow import machines, opening
from ff_memories.workflow.records import adopt

arguments = opening.argument


def run(args: argparse.Namespace) -> None:
    run_ = opening.opened(args.configfile)
    print("adopted: " + (", ".join(adopt(run_)) or "nothing new"))
    machines.keep(run_)
