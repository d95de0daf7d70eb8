"""Export a recorded run as an RO-Crate: its shareable files, and who made what of what.

    ff-memories crate --out demo.crate.zip

The crate is a Provenance Run Crate 0.5; with roc-validator installed it is checked by
``rocrate-validator validate -p provenance-run-crate demo.crate.zip``.
"""

import argparse
from pathlib import Path

from ff_memories.artefacts import run as runs


def arguments(parser: argparse.ArgumentParser) -> None:
    runs.argument(parser)
    parser.add_argument("--out", required=True, type=Path, help="a .zip file, or a folder that is not there yet")


def run(args: argparse.Namespace) -> None:
    from ff_memories.artefacts import crate, provenance
    from ff_memories.card import read_card
    from ff_memories.config import load
    from ff_memories.errors import UserError
    from ff_memories.files import replacing
    from ff_memories.stages import DEFAULT
    from ff_memories.workflow import Run

    if args.out.exists():
        raise UserError(f"{args.out}: there is such a file already", "remove it, or give another name")
    configfile = args.configfile or DEFAULT
    card = read_card(Run(load(configfile).model_dump(), str(configfile)).path("model", "card.json"))
    made = crate.build(provenance.read(args.configfile), args.configfile, card["scope"])
    if args.out.suffix == ".zip":
        with replacing(args.out) as partial:
            made.write_zip(partial)
    else:
        made.write(args.out)
    print(f"wrote {args.out}")
