"""Export a run's sample: its sentences in order, and the prefixes at which it observed the layers.

Writes into the folder OUT: train.txt and validation.txt, one sentence per line in the run's order, and sample.jsonl,
`text` and `random_pos` of every example. A run with these texts, `corpus.segmenter: line` and
`composition.sample_file: OUT/sample.jsonl` repeats the draw, whatever its seed; so can other code.
"""

import argparse
from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.corpus import sample, texts


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sentences", required=True, help="table; the command reads the text files that it names")
    parser.add_argument("--examples", required=True, help="table")
    parser.add_argument("--out", required=True, type=Path, help="folder to write to")


def run(args: argparse.Namespace) -> None:
    sentences, examples = tables.read(args.sentences), tables.read(args.examples)
    read = texts.of_sentences(sentences)
    for split in ("train", "validation"):
        numbers = sentences.filter(pl.col("split") == split)["sentence"]
        write_whole(args.out / f"{split}.txt", "".join(read[number] + "\n" for number in numbers))
    write_whole(args.out / "sample.jsonl", sample.written(examples, read))
