"""Find the config file of a run by the run's folder."""

from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.config import Config, parse, read_yaml
from ff_memories.workflow import lock
from ff_memories.workflow.stages import DEFAULT

CONFIGS = ("config/*.yaml", "*.yaml")
BESIDE = "config.yaml"  # in a run's own folder: that of a run whose config was derived from another's


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


def option_of(config: Path) -> Path | None:
    """Return what names a config's run in our functions: ``None`` for the default run, else the file."""
    return None if config.resolve() == DEFAULT.resolve() else config


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
        stages = lock.parsed(recorded.read_text(encoding="utf-8")).get("stages", {})
        named = {root / file for stage in stages.values() for file in stage.get("params", {})}
        if len(only := named & paths.keys()) == 1:
            return only.pop()
    listed = ", ".join(sorted(path.as_posix() for path in paths))
    raise UserError(f"several configs have the run {run!r}: {listed}", "name one with --configfile")
