"""Export a recorded run as an RO-Crate: its shareable files and their provenance.

    ff-memories crate --out demo.crate.zip

It needs the extra ``crate``. The crate follows the profile Provenance Run Crate 0.5. To check it, install roc-validator
and run ``rocrate-validator validate -p provenance-run-crate demo.crate.zip``.
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

from ff_memories.workflow.runs import opening


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument(
        "--out", required=True, type=Path, help="where to write the crate: a new .zip file or a new folder"
    )


def run(args: argparse.Namespace) -> None:
    from ff_memories.base.errors import UserError, with_extra

    if find_spec("rocrate") is None:
        raise UserError("rocrate, which writes crates, is not installed", with_extra("crate"))
    from ff_memories.base.files import atomic_write, require_new
    from ff_memories.model.info import read_info
    from ff_memories.workflow import crate

    require_new(args.out, "name")
    run_ = opening.opened(args.configfile)
    info = read_info(run_.path("model", "info.json"))
    made = crate.build(run_, info)
    if args.out.suffix == ".zip":
        with atomic_write(args.out) as partial:
            made.write_zip(partial)
    else:
        made.write(args.out)
    print(f"wrote {args.out}")
