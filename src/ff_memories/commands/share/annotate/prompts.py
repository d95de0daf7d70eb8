"""Write the items of the annotation study as prompts for a language model, one text file each.

The command calls no model. Put each prompt to a model, write its answer to a file with the prompt's name in another
folder, and read the folder with `annotate answers`. The prompts quote the run's text.
"""

import argparse
from pathlib import Path

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_folder, require_new, write_whole
from ff_memories.corpus import store
from ff_memories.corpus.types import read_types
from ff_memories.patterns import annotation_plan
from ff_memories.patterns.forms import prompts
from ff_memories.workflow.runs import opening
from ff_memories.workflow.runs.finished import corpus_of


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument(
        "--out", required=True, type=Path, help="new folder: a text file for each item, and all in prompts.jsonl"
    )


def run(args: argparse.Namespace) -> None:
    require_new(args.out)
    run_ = opening.opened(args.configfile)
    path, options = corpus_of(run_, "prompts"), run_.config.patterns
    triggers, text = tables.read(run_.table("triggers")), store.read(path)
    types, seed = read_types(run_.dictionary), run_.config.seed
    items = annotation_plan.items(triggers, text, types, options.keys_per_layer, options.top, seed)
    plan = run_.table("annotation_plan")
    if [i.item for i in items] != tables.read(plan).sort("order")["item"].to_list():
        raise UserError(f"{plan}: does not belong to these triggers", "run the workflow again")
    with atomic_folder(args.out) as folder:
        for name, item in prompts.file_names(items):
            write_whole(folder / name, prompts.prompt(item))
        write_whole(folder / "prompts.jsonl", prompts.lines(items))
    print(f"wrote {len(items)} prompts to {args.out}")
