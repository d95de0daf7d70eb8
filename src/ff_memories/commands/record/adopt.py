"""Record Snakemake's outputs in dvc.lock and DVC's cache. Run it after `snakemake` and before `dvc push`."""

import argparse

from ff_memories.workflow import machines
from ff_memories.workflow.records import adopt
from ff_memories.workflow.runs import opening

arguments = opening.argument


def run(args: argparse.Namespace) -> None:
    run_ = opening.opened(args.configfile)
    print("adopted: " + (", ".join(adopt(run_)) or "nothing new"))
    machines.keep(run_)
