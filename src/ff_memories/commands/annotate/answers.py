"""Read a language model's answers to the prompts, and write them as an annotator's CSV file.

The file has the format of the form's export, with the model's name after `model-` as annotator. In annotations/RUN it
becomes part of the run: the report then shows the model's agreement and its error on foils beside people's and the
proxy's. No result follows from its labels.
"""

import argparse
from pathlib import Path

from ff_memories import tables
from ff_memories.base.annotators import ANNOTATOR, MODEL, PEOPLE
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.config import read_yaml
from ff_memories.patterns.readers import answers, csv_files
from ff_memories.patterns.readers.records import Problems, Shown, check
from ff_memories.workflow.run import Run


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--configfile", default="config/config.yaml", help="the run's config file")
    parser.add_argument(
        "--answers", required=True, type=Path,
        help="folder of answers, each named as its prompt; or a file of JSON lines with item and answer",
    )  # fmt: skip
    parser.add_argument("--annotator", required=True, metavar="NAME", help="the model's name")
    parser.add_argument(
        "--lenient", action="store_true",
        help="drop what breaks a rule of the guide, such as a pattern in two prefixes, and answers that cannot be read",
    )  # fmt: skip
    parser.add_argument("--out", required=True, type=Path, help="CSV file to write")


def run(args: argparse.Namespace) -> None:
    run_ = Run(read_yaml(Path(args.configfile)), args.configfile)
    name = " ".join(args.annotator.split())
    if not name or name.casefold() in (ANNOTATOR, PEOPLE):
        raise UserError(f"--annotator {args.annotator!r}: a reserved name", "give the model's name")
    name = MODEL + name.removeprefix(MODEL)
    plan = run_.table("annotation_plan")
    asked = dict(tables.read(plan).select("item", "prefixes").iter_rows())
    problems = Problems()
    records = answers.read(args.answers, name, problems)
    dropped = 0
    if args.lenient:
        unread, problems = len(problems.found), Problems()
        records, changed = answers.mended(records, asked)
        dropped = unread + changed
    kept, _ = check(records, Shown(asked, set()), problems)
    if problems.found:
        shown = "\n  ".join(problems.found[:20] + ["..."] * (len(problems.found) > 20))
        raise UserError(
            f"{len(problems.found)} problems in the answers\n  {shown}",
            "ask the model again for these items, or drop them with --lenient (nothing was written)",
        )
    write_whole(args.out, csv_files.form_csv(run_.config.run, kept))
    items = len({record.item for record in kept})
    print(f"wrote {args.out}: {items} of {len(asked)} items" + (f"; dropped or changed {dropped}" if dropped else ""))
