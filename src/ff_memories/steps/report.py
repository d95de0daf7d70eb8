"""The report: the verdicts, then the paper's sections with figures and numbers, as one page that works offline."""

import os
from pathlib import Path

from ff_memories import tables
from ff_memories.card import read_card
from ff_memories.errors import UserError
from ff_memories.figures.catalogue import FIGURES
from ff_memories.files import write_whole
from ff_memories.report.page import page
from ff_memories.steps.common import config_argument


def arguments(parser):
    config_argument(parser)
    parser.add_argument("--card", required=True, help="card.json")
    parser.add_argument("--claims", required=True, help="table")
    parser.add_argument("--counts", required=True, help="table")
    parser.add_argument("--figures", nargs="*", default=[], metavar="SVG", help="figure2.svg ... figure11.svg")
    parser.add_argument("--table1", help="HTML fragment")
    parser.add_argument("--table2", help="HTML fragment")
    parser.add_argument("--out", required=True, metavar="report.html", help="page to write")


def run(args):
    card, claims = read_card(args.card), tables.read(args.claims)
    if set(claims["scope"]) - {card["scope"]}:
        raise UserError(f"{args.claims}: judged for another model than {args.card} describes", "run snakemake again")
    figures = {Path(path).stem: path for path in args.figures}
    for name, path in figures.items():
        if name not in FIGURES or not path.endswith(".svg"):
            raise UserError(f"{path}: not a figure of the paper", "give figure2.svg to figure11.svg")
    fragments = {name: path for name in ("table1", "table2") if (path := getattr(args, name))}
    folders = {str(Path(path).parent) for path in figures.values()} or {"."}
    if len(folders) > 1:
        raise UserError(f"--figures: they lie in several folders: {', '.join(sorted(folders))}")
    made = {name: _text(path) for name, path in figures.items()}
    try:
        html = page(
            claims,
            tables.read(args.counts),
            made,
            {name: _text(path) for name, path in fragments.items()},
            args.config,
            card,
            {name: _target(path) for name, path in {**figures, **fragments, "claims": args.claims}.items()},
            Path(os.path.relpath(folders.pop(), Path(args.out).parent)).as_posix(),
        )
    except ValueError as error:
        raise UserError(f"--figures: {error}", "remove the figure and run snakemake again") from None
    write_whole(args.out, html)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not readable ({error})", "run snakemake, or pull it with dvc pull") from None


def _target(path: str) -> str:
    """Return a file as a workflow names it; of an absolute path, which no other machine knows, its name alone."""
    return Path(path).name if Path(path).is_absolute() else Path(path).as_posix()
