"""Open the run that a command is about, from its config file or its folder; a run's name belongs to one config."""

import argparse
import os
import re
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.config import Config, parse, read_yaml
from ff_memories.workflow.run import DEFAULT, Run

CONFIGS = ("config/*.yaml", "*.yaml")
BESIDE = "config.yaml"  # in a run's own folder: that of a run whose config was derived from another's


def argument(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a command's run."""
    says = f"the run's config file, or its folder such as results/demo; default: {DEFAULT}"
    parser.add_argument("--configfile", type=Path, default=DEFAULT, help=says)


def opened(given: Path) -> Run:
    """Return the run of a config file or a folder of results. Raises ``UserError`` if it cannot run, or is not here."""
    if not given.is_dir():
        return Run.read(given)
    of_this_project = given.resolve().parent == Path("results").resolve()
    if of_this_project and (run := run_of(given.resolve().name)) is not None:
        return run
    raise UserError(f"{given}: no folder of a run whose config is here", "name its config with --configfile")


def configs(run: str, root: Path = Path()) -> tuple[list[tuple[Path, Config]], list[Path]]:
    """Return a project's configs of a run, and the files that name the run but are no valid config."""
    named = re.compile(rf"^['\"]?run['\"]?\s*:\s*['\"]?{re.escape(run)}['\"]?\s*(#.*)?$", re.MULTILINE)
    valid, broken = [], []
    beside = root / "results" / run / BESIDE
    for path in [beside, *(path for pattern in CONFIGS for path in sorted(root.glob(pattern)))]:
        try:
            if path.is_file() and named.search(path.read_text(encoding="utf-8")):  # reading YAML takes long
                valid.append((path, parse(read_yaml(path), str(path), root)))
        except (UserError, OSError, ValueError):
            broken.append(path)
    return valid, broken


def run_of(name: str) -> Run | None:
    """Return the run of a name; ``None`` if no config is here. Raises ``UserError`` if several differ, or it is bad."""
    valid, broken = configs(name)
    if any(config != valid[0][1] for _, config in valid):
        listed = ", ".join(sorted(path.as_posix() for path, _ in valid))
        raise UserError(f"several configs have the run {name!r}: {listed}", "name one with --configfile")
    paths = [path for path, _ in valid] or broken
    return Run.read(paths[0]) if paths else None


def refuse_taken(run: Run) -> None:
    """Raise ``UserError`` if another config that is here has the same run with other settings.

    Its results would be overwritten. A copy, or one with other ``execution``, changes none.
    """
    settings = run.config.model_copy(update={"execution": None})
    for path, other in configs(run.config.run)[0]:
        same_file = os.path.realpath(path) == os.path.realpath(run.file)
        if not same_file and other.model_copy(update={"execution": None}) != settings:
            taken = f"that of {path}, which has other settings; its results are in {run.results}"
            hint = "choose another name for this run, or remove the other config"
            raise UserError(f"{run.file}: the run {run.config.run} is {taken}", hint)
