"""Draw one figure from tables: PDF, SVG, PNG, its specification and its numbers.

Writes OUT.pdf, OUT.svg, OUT.png (two pixels a point), OUT.vl.json (Vega-Lite with the data inside) and OUT.csv (the
frame that is drawn). The same tables, model info and config give the same bytes.
"""

import argparse
from contextlib import ExitStack

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write
from ff_memories.config import FigureOptions, Settings
from ff_memories.figures import draw, render
from ff_memories.figures.context import from_info
from ff_memories.figures.registry import DRAWN


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--figure", required=True, choices=list(DRAWN), metavar="FIGURE", help="figure2 to figure11, or one of our own"
    )
    parser.add_argument("--config", required=True, help="config file, or its declared sections as JSON")
    parser.add_argument("--info", required=True, help="the model info, model/info.json")
    parser.add_argument("--tables", required=True, nargs="+", metavar="TABLE", help="the tables it is drawn from")
    parser.add_argument("--out", required=True, help="path without suffix")


def run(args: argparse.Namespace) -> None:
    entry = DRAWN[args.figure]
    settings = Settings.from_argument(args.config)
    options = settings.figures.get(args.figure, FigureOptions()) if "figures" in vars(settings) else FigureOptions()
    target = settings.values.target if "values" in vars(settings) else "next"
    context = from_info(args.figure, args.info, options, target)
    paths = {tables.name_of(path): path for path in args.tables}
    if missing := [name for name in entry.tables if name not in paths]:
        raise UserError(
            f"{args.figure} is drawn from {', '.join(entry.tables)}", f"add {missing[0]}.parquet to --tables"
        )
    frame = draw.data({name: tables.read(paths[name]) for name in entry.tables}, settings, context)
    made = render.files(draw.chart(frame, context), args.figure)
    write(made | {".csv": frame.write_csv().encode()}, args.out)


def write(made: dict[str, bytes], out: str) -> None:
    """Write all files of a figure beside each other: first all of them, then all into place."""
    with ExitStack() as all_of_them:
        for suffix, content in made.items():
            all_of_them.enter_context(atomic_write(f"{out}{suffix}")).write_bytes(content)
