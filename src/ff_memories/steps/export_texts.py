"""Export JSON lines of triggers as the released code's text files, one per key."""

import argparse
from functools import lru_cache
from pathlib import Path

from ff_memories.corpus import moses
from ff_memories.errors import UserError
from ff_memories.exports.triggers import key_files


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jsonl", required=True, type=Path, help="what export-triggers wrote")
    parser.add_argument("--out", required=True, type=Path, help="folder to write; it must not be there yet")


def run(args: argparse.Namespace) -> None:
    if args.out.exists():
        raise UserError(f"{args.out}: is there already", "give another folder, or remove it")
    if not args.jsonl.is_file():
        raise UserError(f"{args.jsonl}: no such file", "write it with: ff-memories export-triggers")
    tokenize = lru_cache(maxsize=1 << 18)(moses.printer())  # sentences trigger many keys
    args.out.mkdir(parents=True)
    with args.jsonl.open(encoding="utf-8") as lines:
        for line in lines:
            for name, content in key_files(line, tokenize):
                (args.out / name).write_text(content, encoding="utf-8")
