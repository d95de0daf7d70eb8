"""Find the config that a finished run was made with: from its dvc.lock, or from the config file of its name."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.config import Config, load, parse, read_yaml
from ff_memories.exports.published import without_folders
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.runs.opening import configs

LOCKS = ("dvc.lock", "runs/*/dvc.lock")


def find(folder: Path, info: Mapping[str, Any], read: Iterable[Path], given: Path | None) -> tuple[Config | None, str]:
    """Return a run's config and where it is from; ``None`` and the reason if there is no config to rely on.

    A dvc.lock counts only if it recorded the run's tables as they are now, and then its values replace those of a
    config that has been edited since. A config file counts only if it names the run and, as far as both say it, the
    same model as the run's info.

    Args:
        folder: the run's folder, ``<project>/results/<run>``.
        info: the run's model info.
        read: the tables that the atlas reads.
        given: a config file that the user named.

    Raises:
        UserError: the given config file is of another run or another model.
    """
    root = folder.resolve().parents[1]
    if given is not None:
        config = load(given)
        if config.run != folder.resolve().name:
            raise UserError(f"{given}: is the config of the run {config.run!r}", "name the run's own config file")
        if not config.model.is_of(info):
            raise UserError(f"{given}: names another model than {folder}/model/info.json", "name the run's own config")
        return config, without_folders(given.as_posix())
    for path in (path for pattern in LOCKS for path in sorted(root.glob(pattern))):
        if (found := _recorded(path, root, folder, read)) is not None:
            return found, path.relative_to(root).as_posix()
    own, broken = configs(folder.resolve().name, root)
    fitting = [(path, config) for path, config in own if config.model.is_of(info)]
    if not fitting and broken:
        return None, f"{broken[0].relative_to(root).as_posix()} cannot be read as a config"
    if not fitting:
        return None, "the configs of this name have another model" if own else "no config of this name"
    path, config = fitting[0]
    if any(other != config for _, other in fitting[1:]):
        return None, "several configs have this name: " + ", ".join(p.relative_to(root).as_posix() for p, _ in fitting)
    return config, path.relative_to(root).as_posix()


def _recorded(path: Path, root: Path, folder: Path, read: Iterable[Path]) -> Config | None:
    """Return the config that a dvc.lock recorded for these tables, or ``None`` if it recorded others."""
    try:
        stages = dvc_lock_file.stages_of(path)
        outputs = {out["path"]: (stage, out["md5"]) for stage in stages.values() for out in stage.get("outs", [])}
        names = {f"results/{folder.resolve().name}/tables/{table.name}": table for table in read}
        known = [(*outputs[name], table) for name, table in names.items() if name in outputs]
        if not known or any(md5 != dvc_lock_file.digest(table) for _, md5, table in known):
            return None
        keys = {file: part for stage, _, _ in known for file, part in stage.get("params", {}).items()}
        if not (config := (root / next(iter(keys))).resolve()).is_relative_to(root):
            return None
        data = read_yaml(config)
        for stage, _, _ in known:
            for part in stage.get("params", {}).values():
                for key, value in part.items():
                    _put(data, key.split("."), value)
        return parse(data, str(path))
    except (OSError, UserError, StopIteration, AttributeError, TypeError):
        return None


def _put(data: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        data = data.setdefault(key, {})
    data[keys[-1]] = value
