"""Run a tool's commands: modules with ``arguments(parser)`` and ``run(args)``, whose docstrings are their help."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module

from ff_memories.base import arithmetic
from ff_memories.base.errors import UserError


def main(tool: str, commands: Iterable[str], words: Sequence[str] | None = None) -> None:
    """Run one command of ``contrib.TOOL``; on bad input, print a message to stderr and exit with status 2."""
    for after in re.findall(r"--arithmetic[= ](\S+)", " ".join(words or sys.argv)):
        os.environ.update(arithmetic.environment(after))  # before numpy and torch
    about = import_module(f"contrib.{tool}").__doc__
    parser = argparse.ArgumentParser(prog=f"python -m contrib.{tool}", description=about)
    listed = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in commands:
        module = import_module(f"contrib.{tool}.{name}")
        about = (module.__doc__ or "").partition("\n")[0]
        form = argparse.RawDescriptionHelpFormatter
        command = listed.add_parser(name, description=module.__doc__, help=about, formatter_class=form)
        module.arguments(command)
        command.set_defaults(run=module.run)
    args = parser.parse_args(words)
    try:
        args.run(args)
    except (UserError, OSError) as refused:
        print(f"error: {refused}", file=sys.stderr)
        sys.exit(2)
