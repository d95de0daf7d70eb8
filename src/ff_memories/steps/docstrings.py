"""Build the demo corpus from the documentation strings of pinned packages."""

import argparse

from ff_memories.corpus import docstrings
from ff_memories.files import replacing


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--train", required=True, help="text file to write")
    parser.add_argument("--validation", required=True, help="text file to write")


def run(args: argparse.Namespace) -> None:
    for split, paragraphs in docstrings.build().items():
        with replacing(getattr(args, split)) as partial:
            partial.write_text("\n".join(paragraphs) + "\n", encoding="utf-8")
