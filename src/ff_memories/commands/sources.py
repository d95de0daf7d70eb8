"""Write sources.yaml: for each stage of a run, a digest of what it does.

The digest is of the stage's commands, its code and the values of its config. DVC compares it with its
record. A comment, a docstring or a help text does not change it; `dvc repro` runs this command first.
"""

import argparse

from ff_memories.workflow import dvc_yaml, opening

arguments = opening.argument


def run(args: argparse.Namespace) -> None:
    run_ = opening.opened(args.configfile)
    print(dvc_yaml.write_sources(run_, dvc_yaml.stages(run_)))
