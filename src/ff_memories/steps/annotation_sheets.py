"""Write the sheets of a study: forms for the browser, spreadsheets, and tasks for Label Studio and doccano."""

import argparse
from pathlib import Path

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.escaping import csv_text
from ff_memories.base.files import write_whole
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.patterns import SHEETS, annotation_plan, distance
from ff_memories.patterns.forms import pages
from ff_memories.patterns.readers import csv_files, tools
from ff_memories.steps.common import Configured, config_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    for name in ("plan", "triggers", "examples", "refinement"):
        parser.add_argument(f"--{name}", required=True, help="table")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--dictionary", required=True, help="the model's dict.txt")
    parser.add_argument("--out", required=True, nargs="+", metavar="FILE", help=f"any of {', '.join(SHEETS)}")


def run(args: Configured) -> None:
    config, corpus, dictionary = args.config, store.read(args.corpus), Dictionary.read(args.dictionary)
    options = config.patterns
    items = annotation_plan.items(
        tables.read(args.triggers), corpus, dictionary, options.keys_per_layer, options.top, config.seed
    )
    if [i.item for i in items] != tables.read(args.plan).sort("order")["item"].to_list():
        raise UserError(f"{args.plan}: not the plan of these triggers", "run snakemake again")
    drawn = distance.compositions(tables.read(args.refinement), config.seed)
    cases = distance.compared(drawn, tables.read(args.examples), corpus, dictionary, config.seed)
    made = {
        "patterns.html": lambda: pages.pattern_form(config.run, items),
        "distance.html": lambda: pages.distance_form(config.run, cases),
        "patterns.csv": lambda: csv_files.spreadsheet_csv(config.run, items),
        "distance.csv": lambda: _distance_sheet(config.run, cases),
        "label_studio/interface.xml": tools.label_studio_config,
        "label_studio/tasks.json": lambda: tools.label_studio_tasks(config.run, items),
        "doccano/labels.json": tools.doccano_labels,
        "doccano/examples.jsonl": lambda: tools.doccano_lines(config.run, items),
    }
    for path in args.out:
        name = next((name for name in SHEETS if Path(path).as_posix().endswith(name)), None)
        if name is None:
            raise UserError(f"{path}: no such sheet", f"one of {', '.join(SHEETS)}")
        write_whole(path, made[name]())


def _distance_sheet(run: str, cases: list[distance.Compared]) -> str:
    header = [*csv_files.DISTANCE, "prefix", "before the layer", "the layer", "together"]
    return csv_text(
        header, ([run, "", c.item, "", " ".join(c.prefix), c.residual, c.ffn, c.output] for c in cases)
    )  # fmt: skip
