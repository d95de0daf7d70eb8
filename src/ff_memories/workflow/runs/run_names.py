"""A run's name belongs to one config: another one with the same name and other settings would overwrite its results.

A Snakemake that starts keeps the path of its config file, by the run's name. A config may be renamed, copied as it is,
or edited.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.config import Config, parse, read_yaml

RECORDS = Path(".snakemake/configs")  # one file per run
PLACES = ("config", ".")  # where configs lie


def keep(config: Config, file: str) -> None:
    """Record which config file a run is started with."""
    write_whole(_record(config.run), json.dumps({"config": file}) + "\n")


def refuse_taken(config: Config, file: str) -> None:
    """Raise ``UserError`` if the results of a config's run were made by another config, which is still here.

    Args:
        file: the config's path.
    """
    if (maker := _maker(config, file)) is not None:
        raise _taken(config, file, maker)


def refuse_named(config: Config, file: str) -> None:
    """Raise ``UserError`` as ``refuse_taken``, or if another config that is here has the same run already."""
    refuse_taken(config, file)
    for other in _others(config, file):
        raise _taken(config, file, other)


def doubts(config: Config, file: str) -> list[str]:
    """Return a line for each other config with the same run, if nobody recorded which one made its results."""
    if not _results(config).is_dir() or _known(config.run) is not None:
        return []
    return [
        f"{file}: {other} has the run {config.run} too, with other settings; the results of one replace those of the "
        f"other in {_results(config)}"
        for other in _others(config, file)
    ]


def _taken(config: Config, file: str, other: str) -> UserError:
    return UserError(
        f"{file}: the run {config.run} is that of {other}, which has other settings; its results are in "
        f"{_results(config)}",
        "choose another name for this run, or remove the other config",
    )


def _results(config: Config) -> Path:
    return Path("results", config.run)


def _record(run: str) -> Path:
    return RECORDS / f"{run}.json"


def _known(run: str) -> str | None:
    """Return the config file that a run was last started with; ``None`` if nobody recorded it."""
    try:
        return str(json.loads(_record(run).read_text(encoding="utf-8"))["config"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _maker(config: Config, file: str) -> str | None:
    """Return the other config that made a run's results and now has other settings; ``None`` if there is none."""
    known = _known(config.run)
    if known is None or not _results(config).is_dir() or _same_file(known, file):
        return None
    return known if _differs(known, config) else None


def _others(config: Config, file: str) -> Iterator[str]:
    """Yield the paths of other configs with the same run and other settings."""
    for place in PLACES:
        for path in sorted([*Path(place).glob("*.yaml"), *Path(place).glob("*.yml")]):
            if not _same_file(str(path), file) and _differs(str(path), config):
                yield path.as_posix()


def _same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _differs(path: str, config: Config) -> bool:
    """Return whether a file is a config of the same run with other settings that can change its results."""
    named = re.compile(rf"^['\"]?run['\"]?\s*:\s*['\"]?{re.escape(config.run)}\b", re.MULTILINE)
    try:
        if not Path(path).is_file() or not named.search(Path(path).read_text(encoding="utf-8")):
            return False  # most files: reading YAML takes long
        other = parse(read_yaml(Path(path)), path)
    except (UserError, OSError, ValueError):
        return False
    return other.run == config.run and _settings(other) != _settings(config)


def _settings(config: Config) -> dict[str, Any]:
    return config.model_dump(exclude={"execution"})
