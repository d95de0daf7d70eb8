"""Convert the JSON lines of `triggers` to the released code's text files, one per key."""

import argparse
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from contrib.released_code.trigger_files import key_files, record
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_folder, require_new


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jsonl", required=True, type=Path, help="the file that `triggers` wrote")
    parser.add_argument("--out", required=True, type=Path, help="new folder to write to")


def run(args: argparse.Namespace) -> None:
    require_new(args.out)
    if not args.jsonl.is_file():
        raise UserError(f"{args.jsonl}: no such file", "write it with: python -m contrib.released_code triggers")
    tokenize = lru_cache(maxsize=1 << 18)(printer())  # one sentence triggers many keys
    seen: set[int] = set()
    with atomic_folder(args.out) as folder, args.jsonl.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            place = f"{args.jsonl}, line {number}"
            found = record(line, place)
            if found.dim in seen:
                raise UserError(f"{place}: dim {found.dim} appears twice", "remove one of its lines")
            seen.add(found.dim)
            for name, content in key_files(found, place, tokenize):
                (folder / name).write_text(content, encoding="utf-8", newline="\n")
        if not seen:
            raise UserError(
                f"{args.jsonl}: the file is empty", "write it again with: python -m contrib.released_code triggers"
            )


def printer() -> Callable[[str], list[str]]:
    """Return the tokenizer that the released code prints triggers with: English Moses, HTML escapes, hyphens kept."""
    from sacremoses import MosesTokenizer

    return MosesTokenizer(lang="en").tokenize
