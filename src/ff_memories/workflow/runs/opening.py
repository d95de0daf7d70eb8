"""Open the run that a command is about: from its config file, or from its folder of results."""

import argparse
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.config import Config, parse, read_yaml
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.runs.run import DEFAULT, Run

CONFIGS = ("config/*.yaml", "*.yaml")
BESIDE = "config.yaml"  # in a run's own folder: that of a run whose config was derived from another's


def argument(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a command's run."""
    says = f"the run's config file, or its folder such as results/demo; default: {DEFAULT}"
    parser.add_argument("--configfile", type=Path, default=DEFAULT, help=says)


def opened(given: Path) -> Run:
    """Return the run of a config file or of a folder of results.

    Raises:
        UserError: the config cannot be run, or the folder is not that of a run of this project whose config is here.
    """
    if not given.is_dir():
        return Run.read(given)
    if given.resolve().parent != Path("results").resolve():
        raise UserError(
            f"{given}: expected a file, found a directory that is no run's folder of this project",
            "give a config file, or a folder such as results/demo",
        )
    if (run := run_of(given.resolve().name)) is None:
        raise UserError(f"{given}: no config of this run is here", "name its config with --configfile")
    return run


def run_of(name: str) -> Run | None:
    """Return the run of a name; ``None`` if its config is not here. Raises ``UserError`` as ``config_of`` does."""
    config = config_of(name)
    return None if config is None else Run.read(config)


def configs(root: Path, folder: Path) -> tuple[list[tuple[Path, Config]], list[Path]]:
    """Return a project's configs of a run, and the files that name the run but are no valid config."""
    found, broken = [], []
    own = [path for path in [folder / BESIDE] if path.is_file()]
    for path in [*own, *(path for pattern in CONFIGS for path in sorted(root.glob(pattern)))]:
        try:
            data = read_yaml(path)
        except UserError:
            continue
        if isinstance(data, dict) and data.get("run") == folder.name:
            try:
                found.append((path, parse(data, str(path))))
            except UserError:
                broken.append(path)
    return found, broken


def config_of(run: str, root: Path = Path()) -> Path | None:
    """Return the config file of a run of a project; ``None`` if there is none.

    Of several, it is the one that the run's dvc.lock names.

    Raises:
        UserError: several that differ have the run's name, or the only one is no valid config.
    """
    found, broken = configs(root, root / "results" / run)
    if not found:
        if broken:
            parse(read_yaml(broken[0]), str(broken[0]))
        return None
    if len(found) == 1 or all(other == found[0][1] for _, other in found):
        return found[0][0]
    paths = {path: config for path, config in found}
    recorded = root / "dvc.lock" if root / "config/config.yaml" in paths else root / "runs" / run / "dvc.lock"
    if recorded.is_file():
        stages = dvc_lock_file.stages_of(recorded).values()
        named = {root / file for stage in stages for file in stage.get("params", {})}
        if len(only := named & paths.keys()) == 1:
            return only.pop()
    listed = ", ".join(sorted(path.as_posix() for path in paths))
    raise UserError(f"several configs have the run {run!r}: {listed}", "name one with --configfile")
