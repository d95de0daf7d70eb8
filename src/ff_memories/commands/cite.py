"""Write CITATION.cff, .zenodo.json and codemeta.json from pyproject.toml, or check that they still follow from it."""

import argparse
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.commands import citation


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="compare, do not write; status 2 where they differ")


def run(args: argparse.Namespace) -> None:
    for name, text in citation.files(citation.source()).items():
        path = Path(name)
        if not args.check:
            write_whole(path, text)
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            raise UserError(f"{name} does not follow from {citation.SOURCE}", "ff-memories cite")
