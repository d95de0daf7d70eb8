"""Compare two runs of one config, table by table and claim by claim: identical, equal or different.

A run is a folder (results/demo) or a dvc.lock with its tables in DVC's cache. Equal means that other hardware, threads
or batches explain every difference (docs/verify.md) and that no verdict changes. The exit status is 0 if the runs
are identical or equal, 1 if they differ, and 2 if they could not be compared.
"""

import argparse
import json
from pathlib import Path


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", type=Path, metavar="A", help="a run's folder, or a dvc.lock")
    parser.add_argument("b", type=Path, metavar="B", help="the other run")
    parser.add_argument("--configfile", type=Path, help="the config of both runs; default: each run's own, by its name")
    parser.add_argument("--strict", action="store_true", help="accept only identical runs")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from ff_memories.audit.compare import compare, data, page
    from ff_memories.workflow import opening

    run_ = opening.opened(args.configfile) if args.configfile else None
    compared = compare(args.a, args.b, run_)
    print(json.dumps(data(compared), indent=1) if args.json else "\n".join(page(compared)))
    return 0 if compared.answer == "identical" or (compared.answer == "equal" and not args.strict) else 1
