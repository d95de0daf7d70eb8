"""The run that a command is about, as typed."""

import argparse
import shlex
from pathlib import Path


def argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--configfile", type=Path, help="the run's config file; left out: the default run's")


def option(configfile: Path | None) -> str:
    """Return what names the run in a command: nothing for the default run."""
    return f" --configfile {shlex.quote(str(configfile))}" if configfile else ""
