"""Read and check a config file, or the sections of it that a step gets. Every fault names its key."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from ff_memories.base import foreign
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.config.model import KINDS
from ff_memories.config.run import Config, FigureOptions
from ff_memories.config.sections import Extraction, MemorySelection, Triggers, keys_of, plain_path

ABSENT = object()  # the value of a key that a file does not have
PROTOCOL = "protocol"  # a config's key: the file of the keys that several runs share


def _keys_in(sections: list[str]) -> list[str]:
    """Return the keys of the section at a path; none if the path is not a section."""
    keys: dict[str, FieldInfo] = Config.model_fields
    for name in sections:
        keys = FigureOptions.model_fields if sections[0] == "figures" else keys_of(keys.get(name))
    return list(keys)


def faults(error: ValidationError, prefix: str = "") -> str:
    lines = []
    for fault in error.errors():
        where = [prefix, *map(str, fault["loc"])]
        path = [part for part in where if part and part not in KINDS.values()]
        *sections, key = path or [""]
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "unknown key" + did_you_mean(key, _keys_in(sections))
        elif fault["type"] == "missing":
            message = "missing key"
        elif "input" in fault and not isinstance(fault["input"], dict | list | BaseModel):
            message += f" (found {fault['input']!r})"
        lines.append(f"{'.'.join(path)}: {message}" if path else message)  # checks of the whole config name their keys
    return "\n  ".join(lines)


def by_file(data: Any, name: str = "config", root: Path = Path()) -> dict[str, dict[str, Any]]:
    """Return {file: its keys} of a config: itself, and the protocol that it names, if it names one.

    Args:
        root: the project's folder, where the protocol is looked for.

    Raises:
        UserError: one of the two has no keys, or the protocol cannot be read.
    """
    files = {name: data}
    if isinstance(data, dict) and (shared := data.get(PROTOCOL)) is not None:
        try:
            path = plain_path(shared)
        except (ValueError, AttributeError, TypeError) as error:
            raise UserError(f"{name}: {PROTOCOL}: expected a path: {error}") from None
        files = {name: {key: value for key, value in data.items() if key != PROTOCOL}, path: read_yaml(root / path)}
    for file, keys in files.items():
        if not isinstance(keys, dict):
            hint = "give a config, as ff-memories init writes one"
            raise UserError(f"{file}: expected a mapping of sections, found {type(keys).__name__}", hint)
    return files


def joined(data: Any, name: str = "config", root: Path = Path()) -> dict[str, Any]:
    """Return a config's keys together with its protocol's. Raises ``UserError`` where one contradicts the other."""
    own, *shared = by_file(data, name, root).values()
    return _joined(own, shared[0], f"{name}: ", str(data[PROTOCOL])) if shared else own


def _joined(own: dict[str, Any], shared: dict[str, Any], where: str, protocol: str) -> dict[str, Any]:
    out = dict(shared)
    for key, value in own.items():
        there = shared.get(key, value)
        if isinstance(value, dict) and isinstance(there, dict):
            out[key] = _joined(value, there, f"{where}{key}.", protocol)
        elif value != there:
            why = f"{where}{key}: {value!r} contradicts {protocol}, which has {there!r}"
            raise UserError(why, "remove the key from one of the two files")
        else:
            out[key] = value
    return out


def value_at(data: Any, key: str) -> Any:
    """Return what a file's data has at a key, such as ``gallery.keys``, or ``ABSENT``."""
    for part in key.split("."):
        data = data.get(part, ABSENT) if isinstance(data, dict) else ABSENT
    return data


def parse(data: Any, name: str = "config", root: Path = Path()) -> Config:
    """Check a whole config given as plain data. Raises ``UserError`` naming every wrong key."""
    try:
        return Config.model_validate(joined(data, name, root))
    except ValidationError as error:
        raise UserError(f"{name}:\n  {faults(error)}", "config/README.md explains every key") from None


def read_yaml(path: Path) -> Any:
    """Return a config file's data. Raises ``UserError`` if the file is missing or is not valid YAML."""
    hint = None if path.exists() else "check the path, or write a config with ff-memories init"
    return foreign.read_yaml(path, Any, hint, "config file")


def yaml_of(text: str, where: str) -> Any:
    """Return the data of a YAML text. Raises ``UserError``, naming ``where``, for bad YAML or a duplicate key."""
    return foreign.yaml_of(text, where, Any)


def load(path: str | Path) -> Config:
    """Read and check a run's config file."""
    return parse(read_yaml(Path(path)), str(path))


if TYPE_CHECKING:
    _Keys = Config  # type checkers see all of the config's keys
else:
    _Keys = object  # a step has only those of its sections


class Undeclared(UserError, AttributeError):
    """Raised when a step reads a section that ``--config`` does not have."""


class Settings(_Keys):
    """The declared part of a run's config: sections as attributes, checked, ``auto`` resolved."""

    def __init__(self, data: dict[str, Any]):
        for name, value in data.items():
            field = Config.model_fields.get(name)
            if field is None:
                raise UserError(f"{name}: unknown key{did_you_mean(name, Config.model_fields)}")
            try:
                value = TypeAdapter(field.rebuild_annotation()).validate_python(value)
            except ValidationError as error:
                raise UserError(f"config:\n  {faults(error, name)}") from None
            setattr(self, name, value)

    @property
    def precision(self) -> Precision:
        """``extraction.precision``; float32 if a step is run by hand without that section."""
        section: Extraction | None = vars(self).get("extraction")
        return "float32" if section is None else section.precision

    @property
    def looked_at(self) -> MemorySelection:
        """``triggers.keys``; None, for all, if the rule does not declare it, as rules do only where it is set."""
        section: Triggers | None = vars(self).get("triggers")
        return None if section is None else section.keys

    if not TYPE_CHECKING:  # type checkers then report keys that the config lacks

        def __getattr__(self, name: str) -> Any:
            raise Undeclared(
                f"this step reads the config section {name!r}, which its rule does not declare",
                "give --config a run's config file, or add that section",
            )

    @classmethod
    def from_argument(cls, text: str) -> "Settings":
        """Read ``--config``: a config file's path, or the declared sections themselves as JSON."""
        if text.lstrip().startswith("{"):
            try:
                return cls(json.loads(text))
            except (ValueError, RecursionError) as error:
                raise UserError(f"--config: not valid JSON: {error}") from None
        return cls(load(text).resolved())
