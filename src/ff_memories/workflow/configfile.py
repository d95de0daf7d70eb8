"""The option that names a command's run."""

import argparse
import shlex
from pathlib import Path


def argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--configfile", type=Path, help="the run's config file; default: config/config.yaml")


def option(configfile: Path | None) -> str:
    """Return the option that names a run in a command; nothing for the default run."""
    return f" --configfile {shlex.quote(str(configfile))}" if configfile else ""
