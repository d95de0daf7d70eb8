"""Table 1: keys, their patterns and example prefixes, as HTML, CSV and LaTeX."""

import argparse

from ff_memories import tables
from ff_memories.model.info import read_info
from ff_memories.report import table1
from ff_memories.report.formats import text_arguments, write_formats
from ff_memories.report.passages import Texts
from ff_memories.report.rendering import render


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--annotations", required=True, help="table")
    parser.add_argument("--labels", required=True, help="table pattern_labels")
    parser.add_argument("--triggers", required=True, help="table")
    text_arguments(parser)


def run(args: argparse.Namespace) -> None:
    info, texts = read_info(args.info), Texts.read(args.sentences, args.corpus, args.dictionary)
    annotations, labels, triggers = map(tables.read, (args.annotations, args.labels, args.triggers))
    rows, scope = table1.table1(annotations, labels, triggers, texts, info["layers"]), info["scope"]
    write_formats(
        args.out,
        {
            ".html": lambda: render("table1.html.j2", rows=rows, scope=scope),
            ".csv": lambda: table1.to_csv(rows, scope),
            ".tex": lambda: table1.to_latex(rows, scope),
        },
    )
