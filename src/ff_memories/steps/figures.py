"""Draw figures from tables, as PDF, SVG and PNG, with specification and data, and as a page that works offline.

Of each figure the step writes FIGURE.pdf, FIGURE.svg, FIGURE.png (four pixels per point), FIGURE.vl.json (Vega-Lite
with the data), FIGURE.csv (the data) and FIGURE.html (with Vega). The same tables, model info and config give the same
bytes.
"""

import json
from contextlib import ExitStack
from pathlib import Path

from ff_memories import tables as schemas
from ff_memories.base.files import atomic_write
from ff_memories.base.parameters import AnyInputs, Input, Param, Params, Tables
from ff_memories.config import Settings
from ff_memories.config.sections import FigureOptions
from ff_memories.figures import draw, render
from ff_memories.figures.context import FigureContext
from ff_memories.figures.registry import DRAWN
from ff_memories.model.info import has_inactive, read_info
from ff_memories.report.html import figure_page


def run(figures: Params, config: Settings, info: Input, tables: Tables, models: AnyInputs, out: Param) -> None:
    """Draw figures in all formats.

    Args:
        figures: figure2 to figure11, or the package's own figures
        info: the model's info.json
        tables: the tables that the figures show
        models: the same tables of the models of the baselines, below folders with their names
        out: folder to write to
    """
    facts = read_info(info)
    keys = facts.get("neurons", facts["keys"])
    of_models: dict[str, schemas.Frames] = {}
    for path in models:
        of_models.setdefault(path.parent.parent.name, {})[schemas.name_of(path)] = schemas.read(path)
    for figure in figures:
        entry = DRAWN[figure]
        options = config.figures.get(figure, FigureOptions())
        values = vars(config).get("values")  # of a figure that compares predictions
        target = "next" if values is None else values.target
        context = FigureContext(
            figure, facts["layers"], keys, facts["vocab"], facts["scope"], options, target, has_inactive(facts)
        )
        run_tables = {name: schemas.read(tables[name]) for name in entry.tables}
        frame = draw.data(run_tables, config, context, of_models if entry.untrained else {})
        files = render.files(draw.chart(frame, context), figure) | {".csv": frame.write_csv().encode()}
        files[".html"] = figure_page(figure, json.loads(files[".vl.json"])).encode()
        with ExitStack() as whole:  # all files of a figure, or none
            for suffix, content in files.items():
                whole.enter_context(atomic_write(Path(out, figure + suffix))).write_bytes(content)
