"""Table 2: the most predictive values and a trigger of each, as HTML, CSV (100 values) and LaTeX."""

import argparse

from ff_memories import tables
from ff_memories.base.options import whole
from ff_memories.model.info import read_info
from ff_memories.report import table2
from ff_memories.report.formats import text_arguments, write_formats
from ff_memories.report.passages import Texts
from ff_memories.report.rendering import render
from ff_memories.steps.common import Configured, config_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    parser.add_argument("--values", required=True, help="table")
    parser.add_argument("--triggers", required=True, help="table")
    parser.add_argument("--rows", type=whole(), default=10, help="values in the HTML and the LaTeX table")
    text_arguments(parser)


def run(args: Configured) -> None:
    info, texts = read_info(args.info), Texts.read(args.sentences, args.corpus, args.dictionary)
    target = args.config.values.target
    rows = table2.table2(tables.read(args.values), tables.read(args.triggers), texts, target)
    few, scope = rows[: args.rows], info["scope"]
    write_formats(
        args.out,
        {
            ".html": lambda: render("table2.html.j2", rows=few, scope=scope, target=target),
            ".csv": lambda: table2.to_csv(rows, scope),
            ".tex": lambda: table2.to_latex(few, scope),
        },
    )
