"""Write triggers as the released code's JSON lines, one line per dimension."""

import argparse

from contrib.released_code import run_types
from contrib.released_code.trigger_files import jsonl
from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write
from ff_memories.base.parameters import whole
from ff_memories.corpus.text import of_sentences
from ff_memories.model.info import read_info


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--triggers", required=True, help="the run's table triggers")
    parser.add_argument("--sentences", required=True, help="the run's table sentences; its text files must be here")
    run_types.argument(parser)
    parser.add_argument("--info", required=True, help="the model's info.json")
    parser.add_argument("--top", type=whole(), default=50, help="triggers per key; missing ones are filled with zeros")
    parser.add_argument(
        "--dims", nargs="+", action="extend", type=int, help="dimensions to write, for every layer; default: all"
    )
    parser.add_argument("--out", required=True, help="file to write: trigger_examples.jsonl")


def run(args: argparse.Namespace) -> None:
    info, triggers = read_info(args.info), tables.read(args.triggers)
    texts = of_sentences(tables.read(args.sentences), run_types.of(args))
    dims = range(info["keys"]) if args.dims is None else args.dims
    if unknown := [dim for dim in dims if not 0 <= dim < info["keys"]]:
        raise UserError(f"--dims {unknown[0]}: the model's dimensions are 0 to {info['keys'] - 1}")
    with atomic_write(args.out) as partial, partial.open("w", encoding="utf-8") as file:
        for line in jsonl(triggers, texts, info["layers"], dims, args.top):
            file.write(line + "\n")
