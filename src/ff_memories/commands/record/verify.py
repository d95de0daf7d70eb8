"""Check a recorded run without a GPU: its files, figures and claims, and a random sample of its measurements.

The exit status is 0 if all checks pass, 1 if one fails, and 2 if the run could not be checked, or not all of it.
docs/verify.md lists the checks and explains the certificate.
"""

import argparse
import json
import os
import secrets
import signal
import sys
import time
from pathlib import Path

from ff_memories.audit.recompute.sampling import Aim
from ff_memories.base.options import threads, whole
from ff_memories.workflow.runs import opening

ABOUT = {  # scope -> whose results these are
    "paper": "the paper's own model",
    "surrogate": "a surrogate model: these are not results of the paper's own model",
    "model": "a model of transformers: these are not results of the paper's own model",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--confidence", type=float, default=Aim.confidence, help="confidence of the audit")
    parser.add_argument(
        "--share", type=float, default=Aim.share, help="largest share of wrong rows that may go unnoticed"
    )
    parser.add_argument("--seed", type=whole(0), help="seed of the audit's sample; default: random, and printed")
    parser.add_argument("--certificate", type=Path, metavar="FILE", help="also write the findings to this file as JSON")
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        metavar="PART",
        help="check only these parts, such as files (docs/verify.md)",
    )
    parser.add_argument(
        "--cores", type=threads, default=os.cpu_count(), help="number of jobs at a time when rebuilding files"
    )


def run(args: argparse.Namespace) -> int:
    from ff_memories.audit.verify.certificate import certificate, page, verdict
    from ff_memories.audit.verify.verify import PARTS, faultless, verified, verify
    from ff_memories.base.errors import UserError
    from ff_memories.base.files import write_whole
    from ff_memories.model.info import read_info

    if unknown := set(args.only or ()) - set(PARTS):
        raise UserError(f"--only {min(unknown)}: no such part", f"choose from {', '.join(PARTS)}")
    drawn = args.seed is None
    aim = Aim(args.confidence, args.share, secrets.randbits(32) if drawn else args.seed, drawn)
    run_ = opening.opened(args.configfile)
    scope = read_info(run_.path("model", "info.json"))["scope"]
    print(f"{run_.results}, {ABOUT[scope]}", flush=True)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # raises, so temporary files go
    begun = time.monotonic()
    parts = verify(run_, aim, args.cores, args.only or list(PARTS), lambda p: print(*page(p), sep="\n", flush=True))
    seconds = time.monotonic() - begun
    print(verdict(parts, seconds))
    if args.certificate:
        made = certificate(parts, seconds, run_, scope)
        write_whole(args.certificate, json.dumps(made, indent=1) + "\n")
    return 1 if not faultless(parts) else 2 if not args.only and not verified(parts) else 0
