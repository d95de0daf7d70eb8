"""Export a recorded run as an RO-Crate: its shareable files and their provenance.

    ff-memories crate --out demo.crate.zip

The crate follows the profile Provenance Run Crate 0.5. To check it, install roc-validator and run
``rocrate-validator validate -p provenance-run-crate demo.crate.zip``.
"""

import argparse
from pathlib import Path

from ff_memories.workflow import configfile as runs


def arguments(parser: argparse.ArgumentParser) -> None:
    runs.argument(parser)
    parser.add_argument(
        "--out", required=True, type=Path, help="where to write the crate: a new .zip file or a new folder"
    )


def run(args: argparse.Namespace) -> None:
    from ff_memories.base.errors import UserError
    from ff_memories.base.files import atomic_write
    from ff_memories.config import load
    from ff_memories.model.info import read_info
    from ff_memories.workflow import crate, provenance
    from ff_memories.workflow.run import Run
    from ff_memories.workflow.stages import DEFAULT

    if args.out.exists():
        raise UserError(f"{args.out}: already exists", "remove it, or choose another name")
    configfile = args.configfile or DEFAULT
    info = read_info(Run(load(configfile).model_dump(), str(configfile)).path("model", "info.json"))
    made = crate.build(provenance.read(args.configfile), args.configfile, info["scope"])
    if args.out.suffix == ".zip":
        with atomic_write(args.out) as partial:
            made.write_zip(partial)
    else:
        made.write(args.out)
    print(f"wrote {args.out}")
