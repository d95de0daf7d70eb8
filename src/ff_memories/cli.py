"""``ff-memories STEP ...``: one sub-command per module of ``ff_memories.steps``; every rule calls one."""

import argparse
import ast
import importlib
import json
import os
import sys
import warnings
from itertools import pairwise
from pathlib import Path

from ff_memories import arithmetic, files
from ff_memories.errors import UserError, did_you_mean
from ff_memories.killed import end_with_snakemake
from ff_memories.plain import visible
from ff_memories.report.cost import MACHINE, MADE, hardware

STEPS = Path(__file__).parent / "steps"
GOES_ON = "run the same command again: what was done is kept, and a shard goes on from its last checkpoint"


def names() -> list[str]:
    """Return the names of all steps, as typed: ``trigger-shard`` is the module ``steps/trigger_shard.py``."""
    return sorted(p.stem.replace("_", "-") for p in STEPS.glob("*.py") if p.stem not in ("__init__", "common"))


def _about(name: str) -> str:
    source = (STEPS / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def main(argv: list[str] | None = None) -> None:
    """Run one step. Bad input ends with its message on stderr and status 2, with nothing half-written."""
    argv = sys.argv[1:] if argv is None else argv
    as_job = "FF_MEMORIES_LOGS_MACHINE" in os.environ
    if chosen_arithmetic := [after for word, after in pairwise(argv) if word == "--arithmetic"]:
        arithmetic.use(chosen_arithmetic[-1])
    elif as_job:
        arithmetic.use("portable")  # a step without a model has no reason to compute otherwise
    if "OMP_WAIT_POLICY" not in os.environ:  # before torch: threads that spin for long starve other jobs, and small
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # operations take twice as long where they sleep at once
    parser = argparse.ArgumentParser(prog="ff-memories", description=__doc__)
    steps = parser.add_subparsers(dest="step", metavar="STEP", required=True)
    chosen = next((a for a in argv if not a.startswith("-")), None)
    if chosen is not None and chosen not in names():
        meant = did_you_mean(chosen, names())
        sys.exit(_fail(f"{chosen}: no such command{meant}\n  to mend it: ff-memories --help lists all commands"))
    for name in names():
        step = steps.add_parser(name, help=_about(name))
        if name == chosen:  # import that one alone: torch and altair cost seconds
            module = importlib.import_module(f"ff_memories.steps.{name.replace('-', '_')}")
            step.description = module.__doc__
            step.formatter_class = argparse.RawDescriptionHelpFormatter
            module.arguments(step)
            step.set_defaults(run=module.run)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    try:
        args = parser.parse_args(argv)
        if as_job:  # a job of Snakemake: its log begins with what it ran on and ends with what it made
            end_with_snakemake()
            print(f"{MACHINE}{json.dumps(hardware(args))}", file=sys.stderr, flush=True)
        status = args.run(args)
        if as_job:
            print(f"{MADE}{json.dumps(files.digests())}", file=sys.stderr, flush=True)
        sys.stdout.flush()  # here, where a reader that has gone is no error
    except UserError as error:
        sys.exit(_fail(str(error)))
    except RuntimeError as error:
        if "CUDA error" not in str(error):
            raise
        sys.exit(_fail("the GPU failed: " + str(error).split("\n")[0] + f"\n  to go on: {GOES_ON}"))
    except BrokenPipeError:
        _write_no_more()
        sys.exit(0)
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # it is there that no space was left
            _write_no_more()
        where = "".join(f"{path}: " for path in (error.filename, error.filename2) if path is not None)
        sys.exit(_fail(where + (error.strerror or str(error))))
    sys.exit(status or 0)


def _write_no_more() -> None:
    """Lead stdout nowhere, or Python would write what is left, and fail, once more as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> int:
    shown = "\n".join(map(visible, message.split("\n")))  # it quotes files that may want to steer the terminal
    print(f"error: {shown}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
