"""Write the files of simulated annotators, who see what the proxy sees, with errors at given rates.

Give one rate for all annotators, or one rate for each. Scores from these files are marked SIMULATED.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from contrib import annotation_study
from contrib.annotation_study import judgement_csv, pattern_csv
from contrib.simulated_annotators import simulate
from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.tables.annotation import ANNOTATOR, SIMULATED
from ff_memories.workflow import opening

RATES = {
    "miss": "share of true patterns that are missed",
    "mistype": "share of patterns given the wrong type",
    "foil": "share of foils in which a pattern is seen",
    "misjudge": "share of compositions given the wrong label",
}


def run(args: argparse.Namespace) -> None:
    """Write a file of patterns, and one of judgements if there are compositions, for each annotator."""
    run_ = opening.opened(args.configfile)
    name, seed, plan = run_.config.run, run_.config.seed, tables.read(run_.table("annotation_plan"))
    rates = [getattr(args, rate) for rate in RATES]
    number = max(map(len, rates))
    if any(len(r) not in (1, number) for r in rates) or any(not 0 <= x <= 1 for r in rates for x in r):
        raise UserError(
            "expected rates between 0 and 1, and the same number of rates for every option",
            "give each option one rate, or one rate per annotator",
        )
    truth = tables.read(run_.table("annotations")).filter(annotator=ANNOTATOR)
    labels = tables.read(run_.table("distance_labels")).filter(annotator=ANNOTATOR).select("example", "label")
    label = dict(labels.iter_rows())
    judged = {case.item: label[case.example] for case in annotation_study.compositions(run_)}
    for i, own in enumerate(zip(*(r * number if len(r) == 1 else r for r in rates), strict=True), 1):
        errors = simulate.Errors(*own)
        records = simulate.annotate(i, errors, plan, truth, seed)
        write_whole(args.out / f"{SIMULATED}-{i}.csv", pattern_csv(name, records))
        if judgements := simulate.judge(i, errors, judged, seed):
            text = judgement_csv(name, judgements)
            write_whole(args.out / f"{SIMULATED}-{i}-distance.csv", text)


def main(words: Sequence[str] | None = None) -> None:
    """Run the command; on bad input, print a message to stderr and exit with status 2."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m contrib.simulated_annotators", description=__doc__, formatter_class=form
    )
    opening.argument(parser)
    for name, about in RATES.items():
        parser.add_argument(f"--{name}", type=float, nargs="+", default=[0.1], metavar="RATE", help=about)
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="annotations/RUN")
    args = parser.parse_args(words)
    try:
        run(args)
    except (UserError, OSError) as refused:
        print(f"error: {refused}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
