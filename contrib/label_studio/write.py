"""Write the labelling interface and the tasks of a run's annotation study: interface.xml and tasks.json."""

import argparse
from pathlib import Path

from contrib import annotation_study
from contrib.label_studio import labelling
from ff_memories.base.files import atomic_folder, require_new, write_whole
from ff_memories.workflow import opening


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--out", required=True, type=Path, help="new folder to write to")


def run(args: argparse.Namespace) -> None:
    require_new(args.out)
    run_ = opening.opened(args.configfile)
    items = annotation_study.items(run_)
    with atomic_folder(args.out) as folder:
        write_whole(folder / "interface.xml", labelling.interface())
        write_whole(folder / "tasks.json", labelling.tasks(run_.config.run, items))
    print(f"wrote {len(items)} tasks to {args.out}")
