"""Say what a recorded run adds to the repository's history, and refuse above 20 MB. `make publish` runs it first."""

import argparse

from ff_memories.workflow.recorded import history
from ff_memories.workflow.runs import opening


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)


def run(args: argparse.Namespace) -> None:
    print(history.record(opening.opened(args.configfile)))
