"""The report: the verdicts, then the paper's sections with figures and numbers, as one page that works offline."""

import argparse
import os
from pathlib import Path

from ff_memories import tables
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import write_whole
from ff_memories.figures.registry import DRAWN
from ff_memories.model.info import read_info
from ff_memories.report.page import page
from ff_memories.steps.common import Configured, config_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    parser.add_argument("--info", required=True, help="info.json")
    parser.add_argument("--claims", required=True, help="table")
    parser.add_argument("--counts", required=True, help="table")
    parser.add_argument("--figures", nargs="*", default=[], metavar="SVG", help="figure2.svg ... figure11.svg")
    parser.add_argument("--specs", nargs="*", default=[], metavar="JSON", help="figure2.vl.json ...: those to be live")
    parser.add_argument("--configfile", help="the run's config file, to be named in the commands that rerun a part")
    parser.add_argument("--table1", help="HTML fragment")
    parser.add_argument("--table2", help="HTML fragment")
    parser.add_argument("--table3", help="HTML fragment")
    parser.add_argument("--scores", metavar="TABLE", help="annotation_scores")
    parser.add_argument("--sensitivity", nargs="*", default=[], metavar="TABLE", help="where the run measured it")
    parser.add_argument("--out", required=True, metavar="report.html", help="page to write")


def run(args: Configured) -> None:
    info, claims = read_info(args.info), tables.read(args.claims)
    if set(claims["scope"]) - {info["scope"]}:
        raise UserError(f"{args.claims}: judged for another model than {args.info} describes", "run snakemake again")
    figures = {Path(path).stem: path for path in args.figures}
    for name, path in figures.items():
        if name not in DRAWN or not path.endswith(".svg"):
            raise UserError(f"{path}: not one of our figures", "give figure2.svg to figure11.svg")
    fragments = {name: path for name in ("table1", "table2", "table3") if (path := getattr(args, name))}
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
            info,
            {name: _target(path) for name, path in {**figures, **fragments, "claims": args.claims}.items()},
            Path(os.path.relpath(folders.pop(), Path(args.out).parent)).as_posix(),
            tables.read(args.sensitivity[0]) if args.sensitivity else None,
            tables.read(args.scores) if args.scores else None,
            {Path(path).name.removesuffix(".vl.json"): _text(path) for path in args.specs},
            args.configfile and _target(args.configfile),
        )
    except ValueError as error:
        raise UserError(f"--figures, --specs: {error}", "remove the figure and run snakemake again") from None
    write_whole(args.out, html)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not readable ({error})", rebuild_hint(path)) from None


def _target(path: str) -> str:
    """Return a file as a workflow names it; of a path elsewhere, which no other machine knows, its name alone."""
    return Path(path).name if Path(path).is_absolute() or ".." in Path(path).parts else Path(path).as_posix()
