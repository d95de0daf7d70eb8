"""Write a run's sentences in order, and the sampled prefixes on which it observed the layers.

Writes train.txt and validation.txt, with one sentence per line, and sample.jsonl, with the `text` and `random_pos` of
every example. To repeat the sample with any seed, run these texts with `corpus.segmenter: line` and
`composition.sample_file: OUT/sample.jsonl`. Other code can read the files too.
"""

import argparse
import json
from pathlib import Path

import polars as pl

from contrib.released_code import run_types
from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.corpus import text


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sentences", required=True, help="the run's table sentences; its text files must be here")
    run_types.argument(parser)
    parser.add_argument("--examples", required=True, help="the run's table examples")
    parser.add_argument("--out", required=True, type=Path, help="folder to write to")


def run(args: argparse.Namespace) -> None:
    sentences, examples = tables.read(args.sentences), tables.read(args.examples)
    read = text.of_sentences(sentences, run_types.of(args))
    for split in ("train", "validation"):
        numbers = sentences.filter(pl.col("split") == split)["sentence"]
        write_whole(args.out / f"{split}.txt", "".join(read[number] + "\n" for number in numbers))
    write_whole(args.out / "sample.jsonl", records(examples, read))


def records(examples: pl.DataFrame, read: dict[int, str]) -> str:
    """Return rows of ``examples`` as JSON lines, which ``ff_memories.corpus.sample`` reads."""
    rows = examples.sort("example").select("sentence", "position").iter_rows()
    listed = ({"text": read[sentence], "random_pos": position} for sentence, position in rows)
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in listed)
