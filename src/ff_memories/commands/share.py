"""Pack a finished run into an archive that anybody can verify, without its text.

    ff-memories share results/my-run
    ff-memories verify my-run.zip --text my.txt

The archive has the config, the record of every file, the tables and claims, and names and digests of model and text. It
has no running text, and no path from outside this folder. Annotators' answers are in it, with the names that they gave.
"""

import argparse
from pathlib import Path

from ff_memories.base.files import require_new
from ff_memories.workflow import opening


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="the run: its folder, such as results/my-run, or its config file")
    parser.add_argument("--out", type=Path, help="the archive to write; default: RUN.zip")


def run(args: argparse.Namespace) -> None:
    from ff_memories.workflow.share import inputs, names, pack

    run_ = opening.opened(args.run)
    to = args.out or Path(f"{run_.config.run}.zip")
    require_new(to, "name with --out")
    left_out, files, named = pack(run_, to), inputs(run_), names(run_)
    without = [kind for kind in ("model", "text") if named[kind] is None and files[kind]]
    print(f"wrote {to}, {to.stat().st_size / 1e6:.1f} MB; left out, because it shows text or is made again in seconds:")
    print(f"  {len(left_out)} files; their digests are recorded")
    print(f"check it anywhere with: ff-memories verify {to}" + "".join(f" --{kind} PATH" for kind in without))
