"""Draw one figure from tables, as PDF, SVG and PNG, with its specification and its data.

The step writes OUT.pdf, OUT.svg, OUT.png (four pixels per point), OUT.vl.json (Vega-Lite with the data) and OUT.csv
(the data). The same tables, model info and config give the same bytes.
"""

from contextlib import ExitStack

import polars as pl

from ff_memories import tables as schemas
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write
from ff_memories.base.parameters import AnyInputs, Input, Param, Tables, Wildcard
from ff_memories.config import FigureOptions, Settings
from ff_memories.figures import draw, render
from ff_memories.figures.context import from_info
from ff_memories.figures.registry import DRAWN


def run(figure: Wildcard, config: Settings, info: Input, tables: Tables, models: AnyInputs, out: Param) -> None:
    """Draw a figure in all formats.

    Args:
        figure: figure2 to figure11, or one of the package's own figures
        info: the model's info.json
        tables: the tables that the figure shows
        models: the same tables of untrained models, each model's in a folder with its name, and same_sample's
        out: path to write to, without suffix
    """
    if figure not in DRAWN:
        raise UserError(f"--figure {figure}: no such figure", f"choose from {', '.join(DRAWN)}")
    entry = DRAWN[figure]
    options = config.figures.get(figure, FigureOptions()) if "figures" in vars(config) else FigureOptions()
    target = config.values.target if "values" in vars(config) else "next"
    context = from_info(figure, info, options, target)
    untrained: dict[str, dict[str, pl.DataFrame]] = {}
    for path in models:
        untrained.setdefault(path.parent.name, {})[schemas.name_of(path)] = schemas.read(path)
    own = {name: schemas.read(tables[name]) for name in entry.tables}
    frame = draw.data(own, config, context, untrained)
    made = render.files(draw.chart(frame, context), figure)
    write(made | {".csv": frame.write_csv().encode()}, out)


def write(made: dict[str, bytes], out: str) -> None:
    """Write all files of a figure to temporary files, then move all of them into place."""
    with ExitStack() as all_of_them:
        for suffix, content in made.items():
            all_of_them.enter_context(atomic_write(f"{out}{suffix}")).write_bytes(content)
