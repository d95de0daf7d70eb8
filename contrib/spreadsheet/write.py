"""Write the items and the compositions of a run's annotation study as sheets: patterns.csv and distance.csv."""

import argparse
from pathlib import Path

from contrib import annotation_study
from contrib.spreadsheet import sheet
from ff_memories.base.files import atomic_folder, require_new, write_whole
from ff_memories.workflow import opening


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--out", required=True, type=Path, help="new folder to write to")


def run(args: argparse.Namespace) -> None:
    require_new(args.out)
    run_ = opening.opened(args.configfile)
    items, cases = annotation_study.items(run_), annotation_study.compositions(run_)
    with atomic_folder(args.out) as folder:
        write_whole(folder / "patterns.csv", sheet.patterns(run_.config.run, items))
        write_whole(folder / "distance.csv", sheet.distances(run_.config.run, cases))
    print(f"wrote {len(items)} items and {len(cases)} compositions to {args.out}")
