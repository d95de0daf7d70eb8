"""Check a recorded run without a GPU: its files, figures and claims, and a random sample of its measurements.

    ff-memories verify
    ff-memories verify my-run.zip --text my.txt

The first form checks the run of this project; the second checks one that somebody shared (`ff-memories share`), in any
folder. It fetches model and text by name to data/, or takes those that you give, if they have the run's digests.
The exit status is 0 if all checks pass, 1 if one fails, and 2 if the run could not be checked, or not all of it.
docs/verify.md lists the checks and explains the certificate.
"""

import argparse
import math
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ff_memories.audit.sampling import Aim
from ff_memories.base.machine import cores
from ff_memories.base.parameters import seconds, threads, whole
from ff_memories.workflow import opening
from ff_memories.workflow.run import Run


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", nargs="?", type=Path, help="an archive of `share`, instead of a run of this project")
    parser.add_argument("--model", nargs="+", type=Path, default=[], help="an archive's model: its folder or files")
    parser.add_argument("--text", nargs="+", type=Path, default=[], help="an archive's text: its file or files")
    opening.argument(parser)
    says = f"audit's confidence; default: {Aim.confidence:g}"
    parser.add_argument("--confidence", type=float, default=Aim.confidence, help=says)
    says = f"largest share of wrong rows that may go unnoticed; default: {Aim.share:g}"
    parser.add_argument("--share", type=float, default=Aim.share, help=says)
    parser.add_argument("--seed", type=whole(0), help="seed of the audit's sample; default: random, and printed")
    parser.add_argument("--certificate", type=Path, metavar="FILE", help="also write the findings to this file as JSON")
    says = "check only these parts, such as files (docs/verify.md)"
    parser.add_argument("--only", nargs="+", action="extend", metavar="PART", help=says)
    says = "begin no more work of the audit after this time, such as 5m, and say what the rows drawn by then show"
    parser.add_argument("--time", type=seconds, default=math.inf, help=says)
    says = "jobs at a time, of rebuilding files and of the audit; default: one for each core"
    parser.add_argument("--cores", type=threads, default=cores(), help=says)


def run(args: argparse.Namespace) -> int:
    from ff_memories.audit.verify import PARTS
    from ff_memories.base.errors import UserError

    if unknown := set(args.only or ()) - set(PARTS):
        raise UserError(f"--only {min(unknown)}: no such part", f"choose from {', '.join(PARTS)}")
    if "verdicts" in (args.only or ()) and not {"rebuilt", "audit"} <= set(args.only):
        raise UserError("--only verdicts: they rest on what the parts rebuilt and audit find", "name all three")
    drawn = args.seed is None
    aim = Aim(args.confidence, args.share, secrets.randbits(32) if drawn else args.seed, drawn)
    given = [f"--{name}" for name in ("model", "text") if getattr(args, name)]
    if given and args.archive is None:
        raise UserError(f"{given[0]}: without an archive, the run's config names its files", f"leave out {given[0]}")
    for limit in (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU):
        if signal.getsignal(limit) is not signal.SIG_IGN:  # as below nohup
            signal.signal(limit, leave)
    if args.archive is None:
        return _checked(args, opening.opened(args.configfile), aim, {})
    from ff_memories.workflow import dvc_yaml
    from ff_memories.workflow.share import receive

    args.certificate = args.certificate and args.certificate.absolute()  # of this folder, not the archive's
    with tempfile.TemporaryDirectory(prefix="ff-memories-shared-") as folder:
        config, about = receive(args.archive, Path(folder), args.model, args.text)
        print(args.archive, *_words(about), sep="\n  ", flush=True)
        with chdir(folder):
            os.environ["PYTHONSAFEPATH"] = "1"  # processes import nothing from the folder where they start
            run_ = Run.read(config)
            dvc_yaml.write(run_)  # as the code here says; the archive has the record alone
            try:
                return _checked(args, run_, aim, {"archive": about})
            finally:
                del os.environ["PYTHONSAFEPATH"]


def _words(about: dict[str, Any]) -> Iterator[str]:
    """Yield lines on where an archive's model and text come from, and on the version that made it."""
    for kind in ("model", "text", "pipeline"):
        if about[kind]["files"]:
            yield f"{kind}: {'given' if about[kind]['given'] else about[kind]['name']}"
    if about["made_by"] != (here := version("ff-memories")):
        yield f"made by ff-memories {about['made_by']}; this is {here}, whose code may differ: see the part `record`"


def leave(number: int, _: FrameType | None) -> NoReturn:
    """End the command when a limit does: by raising, so temporary files go, and once, so nothing interrupts that."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _checked(args: argparse.Namespace, run_: Run, aim: Aim, more: dict[str, Any]) -> int:
    """Check a run and print the findings; return the exit status. ``more``: what else the certificate says."""
    from ff_memories.audit.verify import PARTS, CheckedPart, certificate, faultless, page, verified, verify
    from ff_memories.base.files import write_json
    from ff_memories.model.info import ABOUT, read_info

    scope = read_info(run_.path("model", "info.json"))["scope"]
    print(f"{run_.results}, {ABOUT[scope]}", flush=True)
    begun = time.monotonic()

    def say(part: CheckedPart) -> None:
        print(*page(part), sep="\n", flush=True)

    given = {kind: more["archive"][kind] for kind in ("model", "text") if more}
    open_ = [f"the {kind} that you gave may not be {its['name']}" for kind, its in given.items() if not its["known"]]
    parts = [CheckedPart("inputs", "only the archive says their digests", open=open_)] if open_ else []
    for part in parts:
        say(part)
    parts += verify(run_, aim, args.cores, args.only or list(PARTS), say, begun + args.time)
    made = certificate(parts, time.monotonic() - begun, run_, scope) | more
    if args.certificate:
        write_json(args.certificate, made)
    print(made["last_line"])
    return 1 if not faultless(parts) else 2 if not args.only and not verified(parts) else 0
