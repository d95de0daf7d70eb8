"""Convert Label Studio's JSON exports to the CSV format of the forms."""

import argparse
from pathlib import Path

from contrib import annotation_study
from contrib.label_studio import labelling
from ff_memories.annotate.annotation_files import Problems
from ff_memories.workflow import opening


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("exports", nargs="+", type=Path, help="files that Label Studio exported as JSON")
    parser.add_argument("--out", required=True, type=Path, help="CSV file to write")


def run(args: argparse.Namespace) -> None:
    run_ = opening.opened(args.configfile)
    problems = Problems()
    found = [record for path in args.exports for record in labelling.read(path, run_.config.run, problems)]
    annotation_study.write_patterns(run_, found, problems, args.out)
