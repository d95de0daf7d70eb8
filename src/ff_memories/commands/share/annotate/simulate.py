"""Write the files of simulated annotators, who see what the proxy sees, with errors at given rates.

Give one rate for all annotators, or one rate for each. Scores from these files are marked SIMULATED.
"""

import argparse
from pathlib import Path

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.types import read_types
from ff_memories.patterns import distance, simulate
from ff_memories.patterns.readers import csv_files
from ff_memories.tables.annotation import ANNOTATOR, SIMULATED

RATES = {
    "miss": "share of true patterns that are missed",
    "mistype": "share of patterns given the wrong type",
    "foil": "share of foils in which a pattern is seen",
    "misjudge": "share of compositions given the wrong label",
}


TABLES = {"plan": "annotation_plan", "distances": "distance_labels"}  # called otherwise than their options


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", required=True, type=Settings.from_argument, help="a run's config file, or its sections as JSON"
    )
    for name in ("plan", "annotations", "distances", "examples", "refinement"):
        parser.add_argument(f"--{name}", required=True, help=f"the run's table {TABLES.get(name, name)}")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--dictionary", required=True, help="the model's dict.txt")
    for name, about in RATES.items():
        parser.add_argument(f"--{name}", type=float, nargs="+", default=[0.1], metavar="RATE", help=about)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder to write to: annotations/RUN")


def run(args: argparse.Namespace) -> None:
    config: Settings = args.config
    asked = tables.read(args.plan)
    rates = [getattr(args, name) for name in RATES]
    number = max(map(len, rates))
    if any(len(r) not in (1, number) for r in rates) or any(not 0 <= x <= 1 for r in rates for x in r):
        raise UserError(
            "expected rates between 0 and 1, and the same number of rates for every option",
            "give each option one rate, or one rate per annotator",
        )
    truth = tables.read(args.annotations).filter(annotator=ANNOTATOR)
    cases = distance.compared(
        distance.compositions(tables.read(args.refinement), config.seed),
        tables.read(args.examples),
        store.read(args.corpus),
        read_types(args.dictionary),
        config.seed,
    )
    label = dict(tables.read(args.distances).filter(annotator=ANNOTATOR).select("example", "label").iter_rows())
    judged = {case.item: label[case.example] for case in cases}
    for i, own in enumerate(zip(*(r * number if len(r) == 1 else r for r in rates), strict=True), 1):
        errors = simulate.Errors(*own)
        records = simulate.annotate(i, errors, asked, truth, config.seed)
        write_whole(Path(args.out) / f"{SIMULATED}-{i}.csv", csv_files.form_csv(config.run, records))
        judgements = simulate.judge(i, errors, judged, config.seed)
        if judgements:
            text = csv_files.distance_csv(config.run, judgements)
            write_whole(Path(args.out) / f"{SIMULATED}-{i}-distance.csv", text)
