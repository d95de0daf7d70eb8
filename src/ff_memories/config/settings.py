"""The declared part of a run's config, which a step gets: it cannot depend on a key that nothing watches."""

import json
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.config.experiments import Triggers
from ff_memories.config.reading import faults, load
from ff_memories.config.run import Config
from ff_memories.config.running import Extraction
from ff_memories.config.section import MemorySelection

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
        held: Extraction | None = vars(self).get("extraction")
        return "float32" if held is None else held.precision

    @property
    def looked_at(self) -> MemorySelection:
        """``triggers.keys``; None, for all, if the rule does not declare it, as rules do only where it is set."""
        held: Triggers | None = vars(self).get("triggers")
        return None if held is None else held.keys

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
