"""Write docs/steps.md: every step's section of the paper, definition, functions, tables and figures."""

import argparse
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.guide.steps import page


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("docs/steps.md"))
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page is not up to date")


def run(args: argparse.Namespace) -> None:
    if not args.check:
        write_whole(args.out, page())
    elif not args.out.exists() or args.out.read_text(encoding="utf-8") != page():
        raise UserError(f"{args.out} is not up to date", "ff-memories steps-docs")
