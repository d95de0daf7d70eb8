"""Write files of simulated annotators, who see what the proxy sees but for errors at given rates.

The rates are lists, one entry for each annotator. Everything scored from these files is marked SIMULATED.
"""

import argparse
from pathlib import Path

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.patterns import distance, simulate
from ff_memories.patterns.annotators import ANNOTATOR, SIMULATED
from ff_memories.patterns.readers import csv_files

RATES = {
    "miss": "true patterns not seen",
    "mistype": "patterns given the other type",
    "foil": "foils in which a pattern is seen",
    "misjudge": "compositions judged the other way",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", required=True, type=Settings.from_argument, help="a run's config file, or its sections as JSON"
    )
    for name in ("plan", "annotations", "distances", "examples", "refinement"):
        parser.add_argument(f"--{name}", required=True, help="table")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--dictionary", required=True, help="the model's dict.txt")
    for name, about in RATES.items():
        parser.add_argument(f"--{name}", type=float, nargs="+", default=[0.1], metavar="RATE", help=about)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="annotations/RUN")


def run(args: argparse.Namespace) -> None:
    config: Settings = args.config
    asked = tables.read(args.plan)
    rates = [getattr(args, name) for name in RATES]
    number = max(map(len, rates))
    if any(len(r) not in (1, number) for r in rates) or any(not 0 <= x <= 1 for r in rates for x in r):
        raise UserError("the rates are not between 0 and 1, or not as many for each kind", "give one rate, or one each")
    truth = tables.read(args.annotations).filter(annotator=ANNOTATOR)
    cases = distance.compared(
        distance.compositions(tables.read(args.refinement), config.seed), tables.read(args.examples),
        store.read(args.corpus), Dictionary.read(args.dictionary), config.seed,
    )  # fmt: skip
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
