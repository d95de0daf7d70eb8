"""Record Snakemake's outputs in dvc.lock and DVC's cache. Run it after `snakemake` and before `dvc push`."""

import argparse

from ff_memories.workflow import provenance
from ff_memories.workflow.adopt import adopt
from ff_memories.workflow.configfile import argument


def arguments(parser: argparse.ArgumentParser) -> None:
    argument(parser)


def run(args: argparse.Namespace) -> None:
    print("adopted: " + (", ".join(adopt(args.configfile)) or "nothing new"))
    provenance.keep(args.configfile)  # times and machines, which no artefact contains
