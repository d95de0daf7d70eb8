"""Convert completed sheets to the CSV format of the forms, all of patterns.csv or all of distance.csv."""

import argparse
from pathlib import Path

from contrib import annotation_study
from contrib.annotation_study import judgement_csv
from contrib.spreadsheet import sheet
from ff_memories.annotate import annotation_files
from ff_memories.annotate.annotation_files import Problems
from ff_memories.annotate.distance import LABELS
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.workflow import opening


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("sheets", nargs="+", type=Path, help="completed sheets")
    parser.add_argument("--out", required=True, type=Path, help="CSV file to write")


def run(args: argparse.Namespace) -> None:
    run_ = opening.opened(args.configfile)
    problems = Problems()
    read = [sheet.read(path, run_.config.run, problems) for path in args.sheets]
    found = [record for patterns, _ in read for record in patterns]
    judged = [judgement for _, judgements in read for judgement in judgements]
    if not judged:
        return annotation_study.write_patterns(run_, found, problems, args.out)
    if found:
        raise UserError("the sheets are of both questions", "convert patterns and distances to a file each")
    asked = {case.item: case.example for case in annotation_study.compositions(run_)}
    annotation_files.check_names(judged, problems)
    annotation_files.check_judgements(judged, asked, problems)
    problems.refuse(annotation_study.MENDED)
    write_whole(args.out, judgement_csv(run_.config.run, judged))
    print(f"wrote {args.out}: {len(judged)} judgements, each {' or '.join(LABELS)}")
