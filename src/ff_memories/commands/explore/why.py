"""Show where a file comes from: each step, its inputs, code and cost, back to the raw inputs.

    ff-memories why results/demo/figures/figure4.svg

A digest is the start of the MD5 in dvc.lock; ``environment`` is the SHA-256 of constraints.txt.
"""

import argparse

from ff_memories.workflow.runs import opening


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="an output or an input of the run")
    opening.argument(parser)
    parser.add_argument("--brief", action="store_true", help="show only files and rules")


def run(args: argparse.Namespace) -> None:
    from ff_memories.workflow.recorded import provenance, tree

    print("\n".join(tree.tree(provenance.read(opening.opened(args.configfile)), args.file, args.brief)))
