"""What the steps of Tables 1 to 3 share: the arguments of text, and writing by a file's ending."""

import argparse
from collections.abc import Callable
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole


def text_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the files from which ids become text."""
    parser.add_argument("--info", required=True, help="info.json")
    parser.add_argument("--sentences", required=True, help="table")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--dictionary", required=True, help="the checkpoint's dict.txt")
    parser.add_argument(
        "--out", required=True, nargs="+", metavar="FILE", help="files to write: .html (a fragment), .csv, .tex"
    )


def write_formats(paths: list[str], formats: dict[str, Callable[[], str]]) -> None:
    """Write each file in the format that its ending names. Raises ``UserError`` for another ending, writing none."""
    for path in paths:
        if Path(path).suffix not in formats:
            raise UserError(f"{path}: not one of {', '.join(sorted(formats))}")
    for path in paths:
        write_whole(path, formats[Path(path).suffix]())
