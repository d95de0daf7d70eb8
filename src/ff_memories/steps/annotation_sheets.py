"""Write an annotation study's sheets: forms for the browser, spreadsheets, tasks for Label Studio."""

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Input, Outputs
from ff_memories.base.text import csv_text
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.types import read_types
from ff_memories.patterns import annotation_plan, distance
from ff_memories.patterns.forms import pages
from ff_memories.patterns.forms.sheets import SHEETS
from ff_memories.patterns.readers import csv_files, tools


def run(
    config: Settings,
    plan: Input,
    triggers: Input,
    examples: Input,
    refinement: Input,
    corpus: Input,
    dictionary: Input,
    sheets: Outputs,
) -> None:
    """Write the requested sheets.

    Args:
        sheets: any of patterns.html, distance.html, patterns.csv, distance.csv, label_studio/interface.xml,
            label_studio/tasks.json
    """
    text, types, options = store.read(corpus), read_types(dictionary), config.patterns
    items = annotation_plan.items(tables.read(triggers), text, types, options.keys_per_layer, options.top, config.seed)
    if [i.item for i in items] != tables.read(plan).sort("order")["item"].to_list():
        raise UserError(f"{plan}: does not belong to these triggers", "run the workflow again")
    drawn = distance.compositions(tables.read(refinement), config.seed)
    cases = distance.compared(drawn, tables.read(examples), text, types, config.seed)
    made = {
        "patterns.html": lambda: pages.pattern_form(config.run, items),
        "distance.html": lambda: pages.distance_form(config.run, cases),
        "patterns.csv": lambda: csv_files.spreadsheet_csv(config.run, items),
        "distance.csv": lambda: _distance_sheet(config.run, cases),
        "label_studio/interface.xml": tools.label_studio_config,
        "label_studio/tasks.json": lambda: tools.label_studio_tasks(config.run, items),
    }
    for path in sheets:
        name = next((name for name in SHEETS if path.as_posix().endswith(name)), None)
        if name is None:
            raise UserError(f"{path}: no such sheet", f"choose from {', '.join(SHEETS)}")
        write_whole(path, made[name]())


def _distance_sheet(run: str, cases: list[distance.Compared]) -> str:
    header = [*csv_files.DISTANCE, "prefix", "before the layer", "the layer", "together"]
    return csv_text(header, ([run, "", c.item, "", " ".join(c.prefix), c.residual, c.ffn, c.output] for c in cases))
