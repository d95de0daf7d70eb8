"""Record Snakemake's outputs in dvc.lock and DVC's cache. Run it after `snakemake` and before `dvc push`."""

import argparse

from ff_memories.workflow.recorded import provenance
from ff_memories.workflow.recorded.adopt import adopt
from ff_memories.workflow.runs import opening


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)


def run(args: argparse.Namespace) -> None:
    run_ = opening.opened(args.configfile)
    print("adopted: " + (", ".join(adopt(run_)) or "nothing new"))
    provenance.keep(run_)  # times and machines, which no artefact contains
