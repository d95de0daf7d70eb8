"""Write dvc.yaml from the Snakefile, or check that the two agree. A folder that is no DVC project becomes one."""

import argparse

from ff_memories.workflow import dvc_yaml, opening


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with status 2 if they differ")


def run(args: argparse.Namespace) -> None:
    run_ = opening.opened(args.configfile)
    if args.check:
        dvc_yaml.check(run_)
    else:
        dvc_yaml.begin()
        dvc_yaml.look_at(run_)
        print(dvc_yaml.write(run_))
        stage = dvc_yaml.stage_of_sources(run_)
        if stage.with_suffix(".lock").is_file():  # else `dvc repro` in a clone of the record would rewrite it
            dvc_yaml.dvc("commit", "--force", "--quiet", str(stage))
