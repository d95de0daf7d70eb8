"""Read a language model's answers to the prompts, and write them as an annotator's CSV file.

The file has the format of the form's export, with the model's name after `model-` as annotator. In annotations/RUN it
becomes part of the run: the report then shows the model's agreement and its error on foils beside people's and the
proxy's. Figures, tables and claims never use its labels.
"""

import argparse
from pathlib import Path

from contrib.annotation_study import pattern_csv
from contrib.language_model import reading
from ff_memories import tables
from ff_memories.annotate import annotation_files
from ff_memories.annotate.annotation_files import Problems, check
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.tables.annotation import ANNOTATOR, MODEL, PEOPLE
from ff_memories.workflow import opening


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument(
        "--answers",
        required=True,
        type=Path,
        help="folder of answers, each named as its prompt; or a file of JSON lines with item and answer",
    )
    parser.add_argument("--annotator", required=True, metavar="NAME", help="the model's name")
    parser.add_argument(
        "--lenient",
        action="store_true",
        help="drop lines that break a rule of the guide, such as a pattern in only two prefixes; leave out answers "
        "that cannot be read",
    )
    parser.add_argument(
        "--out", required=True, type=Path, help="CSV file to write; it may replace only this model's own file"
    )


def run(args: argparse.Namespace) -> None:
    run_ = opening.opened(args.configfile)
    if args.out.suffix.lower() != ".csv":
        raise UserError(f"--out {args.out}: not a CSV file", "give it a name that ends in .csv")
    name = " ".join(args.annotator.split()).removeprefix(MODEL).strip()
    if not name:
        raise UserError(f"--annotator {args.annotator!r}: lacks a name", "give the model's name")
    if name.casefold() in (ANNOTATOR, PEOPLE):
        raise UserError(f"--annotator {args.annotator!r}: a reserved name", "give the model's name")
    name = MODEL + name
    _refuse_to_replace(args.out, name, run_.config.run)
    asked = dict(tables.read(run_.table("annotation_plan")).select("item", "prefixes").iter_rows())
    problems = Problems()
    given = reading.read(args.answers, name, asked, problems)
    faults = ""
    if args.lenient:
        records, changed = reading.mended(given, asked)
        unread = len(problems) - sum(answer.unread + answer.echoed for answer in given)
        left_out = unread + len(given) - len({record.item for record in records})
        faults = f"; lines dropped or changed: {changed}; answers left out: {left_out}" if changed or left_out else ""
        if not records:
            hint = "leave out --lenient to see what is wrong, and ask the model again (nothing was written)"
            raise UserError(f"{args.answers}: no answer is left", hint)
    else:
        records = check([record for answer in given for record in answer.records], asked, problems)
        hint = "ask the model again for these items, or drop them with --lenient (nothing was written)"
        problems.refuse(hint)
    write_whole(args.out, pattern_csv(run_.config.run, records))
    items = len({record.item for record in records})
    print(f"wrote {args.out}: {items} of {len(asked)} items{faults}")


def _refuse_to_replace(path: Path, name: str, run: str) -> None:
    """Refuse to replace a file unless it has only this model's rows of this run: people's labels have no other copy."""
    if not path.exists():
        return
    rows = list(annotation_files.rows(path, unread := Problems())) if path.is_file() else []
    if not rows or unread or any((row.get("annotator"), row.get("run")) != (name, run) for _, row in rows):
        raise UserError(
            f"{path}: already exists, and is not a file of {name} for the run {run}", "choose another file for --out"
        )
