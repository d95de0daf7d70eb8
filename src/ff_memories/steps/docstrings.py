"""Build the demo corpus from the documentation strings of pinned packages."""

import argparse

from ff_memories.base.files import atomic_write
from ff_memories.inputs import docstrings


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--train", required=True, help="text file to write")
    parser.add_argument("--validation", required=True, help="text file to write")


def run(args: argparse.Namespace) -> None:
    for split, paragraphs in docstrings.build().items():
        with atomic_write(getattr(args, split)) as partial:
            partial.write_text("\n".join(paragraphs) + "\n", encoding="utf-8")
