"""Write sources.yaml: for each stage of a run, a digest of its commands, its code and its part of the config.

`dvc repro` runs it first, and compares the digests with its record. Comments and docstrings do not change them. It
fails if dvc.yaml does not match the Snakefile: DVC would see neither other files nor other jobs.
"""

import argparse

from ff_memories.workflow import dvc_yaml, opening

arguments = opening.argument


def run(args: argparse.Namespace) -> None:
    run_ = opening.opened(args.configfile)
    dvc_yaml.write_sources(run_, dvc_yaml.check(run_))
    print(run_.sources_yaml)
