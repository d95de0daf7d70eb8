"""Table 3, Appendix A: a fully annotated key, as HTML, CSV and LaTeX."""

import argparse

from ff_memories import tables
from ff_memories.model.info import read_info
from ff_memories.report import table3
from ff_memories.report.formats import text_arguments, write_formats
from ff_memories.report.passages import Texts
from ff_memories.report.rendering import render
from ff_memories.steps.common import Configured, config_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    parser.add_argument("--annotations", required=True, help="table")
    parser.add_argument("--triggers", required=True, help="table")
    text_arguments(parser)


def run(args: Configured) -> None:
    scope, texts = read_info(args.info)["scope"], Texts.read(args.sentences, args.corpus, args.dictionary)
    annotations, triggers = tables.read(args.annotations), tables.read(args.triggers)
    found = table3.annotated_key(annotations, triggers, texts, args.config.patterns.top)
    write_formats(
        args.out,
        {
            ".html": lambda: render("table3.html.j2", found=found, scope=scope),
            ".csv": lambda: table3.to_csv(found, scope),
            ".tex": lambda: table3.to_latex(found, scope),
        },
    )
