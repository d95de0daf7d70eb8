"""Renew the README's line of verdicts and its picture from a run; docs/data/demo.json keeps what they come from."""

import argparse
import json
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.guide.readme import facts, renewed
from ff_memories.model.info import read_info

KEPT, PICTURE, FIGURE = Path("docs/data/demo.json"), Path("docs/pictures/demo.svg"), "figure11"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, help="a run's folder; without it, what docs/data/demo.json holds")
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the line is not up to date")


def run(args: argparse.Namespace) -> None:
    root = args.readme.parent
    try:
        known, picture = _of_run(args.results) if args.results else (json.loads((root / KEPT).read_text()), None)
        text = args.readme.read_text(encoding="utf-8")
        new = renewed(text, known)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{args.readme}: its line of verdicts cannot be made ({error})", "run snakemake first"
        ) from None
    if args.check:
        if new != text:
            raise UserError(f"{args.readme} does not say what {KEPT} holds", "ff-memories readme")
        return
    if picture is not None:
        write_whole(root / KEPT, json.dumps(known, indent=1, sort_keys=True) + "\n")
        write_whole(root / PICTURE, picture)
    write_whole(args.readme, new)


def _of_run(results: Path) -> tuple[dict[str, Any], str]:
    claims = json.loads((results / "claims.json").read_text(encoding="utf-8"))
    scope = read_info(str(results / "model/info.json"))["scope"]
    return facts(claims, results.name, scope), (results / f"figures/{FIGURE}.svg").read_text(encoding="utf-8")
