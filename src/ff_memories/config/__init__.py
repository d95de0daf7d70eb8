"""The config file of a run: its keys, their types, and checks for combinations that would give wrong numbers.

``load`` reads and checks a whole file; every fault names its key. A step gets ``Settings``, which has only the sections
that its rule declares: a step cannot depend on a key that Snakemake and DVC do not watch.
"""

import os
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator
from pydantic.fields import FieldInfo

from ff_memories.base import foreign
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.machine import IN_LOG
from ff_memories.base.sections import declared
from ff_memories.config import sections
from ff_memories.config.model import KINDS, ONE_ORIGIN, AnyModel

# What `auto` becomes in each key that may be set to it, with fidelity: paper and with fidelity: released.
BY_FIDELITY = {
    "corpus.tokenizer": ("native", "moses"),
    "triggers.positions": ("inner", "released"),
    "values.target": ("next", "last"),
    "values.projection": ("adaptive", "random"),
    "composition.positions": ("1..N", "0..N"),
    "composition.layer_prediction": ("ffn", "output"),
}
FIDELITY = {
    "paper": {path: paper for path, (paper, _) in BY_FIDELITY.items()},
    "released": {path: released for path, (_, released) in BY_FIDELITY.items()},
}

# Required with fidelity: released, although these keys have no `auto`.
RELEASED_ONLY = {
    "triggers.per_sentence": "best",
    "triggers.duplicates": "keep",
    "values.types": "all",
    "corpus.headings": "keep",
    "corpus.too_long": "refuse",
}


class Config(sections.Section):
    """The config of one run."""

    run: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    """name of the run; results go to `results/<run>/`"""
    seed: int = Field(1, ge=0, lt=2**32, description="seed of all random draws")
    fidelity: Literal["paper", "released"] = "paper"
    """what `auto` becomes, in the keys that config/README.md lists: paper (as the paper describes) | released (as the
    authors' released code does)"""
    corpus: sections.CorpusSection
    model: AnyModel
    execution: sections.ExecutionSection = sections.ExecutionSection()
    extraction: sections.Extraction = sections.Extraction()
    triggers: sections.Triggers = sections.Triggers()
    mutations: sections.Mutations = sections.Mutations()
    patterns: sections.Patterns = sections.Patterns()
    values: sections.Values = sections.Values()
    composition: sections.Composition = sections.Composition()
    causal: sections.Causal = Field(default_factory=sections.Causal)
    removals: sections.Removals = Field(default_factory=sections.Removals)
    baselines: sections.Baselines = Field(default_factory=sections.Baselines)
    sensitivity: sections.Sensitivity = Field(default_factory=sections.Sensitivity)
    sources: sections.Sources = Field(default_factory=sections.Sources)
    gallery: sections.Gallery = Field(default_factory=sections.Gallery)
    figures: dict[str, sections.FigureOptions] = Field(default_factory=dict)
    """options of single figures, by name: figure2 to figure11, figureb1, ..."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        faults = []
        required = FIDELITY["released"] | RELEASED_ONLY if self.fidelity == "released" else {}
        for path, value in required.items():
            if (given := attrgetter(path)(self)) not in ("auto", value):
                faults.append(f"{path}: {given!r} contradicts fidelity: released, which requires {value!r}")
        refuses = self.model.refuses.items()
        faults += [f"{path}: {why}" for (path, value), why in refuses if attrgetter(path)(self) == value]
        if (precision := self.extraction.precision) != "float32":
            if self.values.projection == "random" or self.fidelity == "released":
                faults.append(f"extraction.precision: the released code has no {precision!r}; use float32")
            if precision == "tf32" and self.execution.device == "cpu":
                faults.append("extraction.precision: tf32 needs a GPU, but execution.device is cpu")
        for path in ("mutations.top", "patterns.top"):
            if (given := attrgetter(path)(self)) > self.triggers.top:
                faults.append(f"{path}: {given} is more than triggers.top ({self.triggers.top})")
        looked, shown = self.triggers.keys, self.gallery.keys
        if looked is not None and self.fidelity == "released":
            faults.append("triggers.keys: fidelity: released needs all memories, as the released code does")
        if isinstance(looked, int) and isinstance(shown, int) and shown > looked:
            faults.append(f"gallery.keys: {shown} is more than triggers.keys ({looked})")
        if isinstance(looked, dict) and isinstance(shown, dict):
            memories = ((layer, memory) for layer, own in shown.items() for memory in own)
            lacking = [(layer, memory) for layer, memory in memories if memory not in looked.get(layer, [])]
            faults += [f"gallery.keys: memory {m} of layer {layer} is not in triggers.keys" for layer, m in lacking]
        unknown = sorted(set(self.figures).difference(*declared("ff_memories.paper.*.figures.toml").values()))
        faults += [f"figures.{name}: no such figure; expected figure2 to figure11, figureb1, ..." for name in unknown]
        if faults:
            raise ValueError("\n  ".join(faults))
        return self

    def resolved(self) -> dict[str, Any]:
        """Return the config as plain data, with every ``auto`` replaced by its value under ``fidelity``."""
        plain = self.model_dump()
        meant = FIDELITY[self.fidelity] | self.model.auto
        for path, value in meant.items():
            section, key = path.split(".")
            if plain[section][key] == "auto":
                plain[section][key] = value
        return plain


def usual(keys: dict[str, FieldInfo] = Config.model_fields) -> dict[str, Any]:
    """Return a new config as plain data: the paper's choices, and null for keys that each run sets itself."""
    out: dict[str, Any] = {}
    for name, field in keys.items():
        if field.default_factory is None and not field.json_schema_extra:
            if below := sections.keys_of(field):
                out[name] = usual(below)
            elif field.is_required():
                out[name] = None
            elif field.default is not None:
                out[name] = field.default
    return out


ABSENT = object()  # the value of a key that a file does not have
PROTOCOL = "protocol"  # a config's key: the file of the keys that several runs share


def faults(error: ValidationError, prefix: str = "") -> str:
    lines = []
    for fault in error.errors():
        where = [prefix, *map(str, fault["loc"])]
        path = [part for part in where if part and part not in KINDS]
        *above, key = path or [""]
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            keys: dict[str, FieldInfo] = Config.model_fields
            for name in above:
                keys = sections.keys_of(keys.get(name))
            keys = sections.FigureOptions.model_fields if above[:1] == ["figures"] else keys
            of_other_kind = f"not a key of this kind of model; {ONE_ORIGIN}"
            message = of_other_kind if key in keys else "unknown key" + did_you_mean(key, keys)
        elif fault["type"] == "missing":
            message = "missing key"
        elif "input" in fault and not isinstance(fault["input"], dict | list | BaseModel):
            message += f" (found {fault['input']!r})"
        lines.append(f"{'.'.join(path)}: {message}" if path else message)  # checks of the whole config name their keys
    return "\n  ".join(lines)


def by_file(data: Any, name: str = "config", root: Path = Path()) -> dict[str, dict[str, Any]]:
    """Return {file: its keys} of a config: itself, and the protocol that it names, if any, in the folder ``root``.

    Raises ``UserError`` if one of the two has no keys, or the protocol cannot be read.
    """
    files = {name: data}
    if isinstance(data, dict) and (shared := data.get(PROTOCOL)) is not None:
        try:
            path = sections.plain_path(shared)
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


def load(path: str | Path) -> Config:
    """Read and check a run's config file."""
    return parse(read_yaml(Path(path)), str(path))


if TYPE_CHECKING:
    _Keys = Config  # type checkers see all of the config's keys
else:
    _Keys = object  # a step has only those of its sections


class Settings(_Keys):
    """The declared part of a run's config: sections as attributes, checked, ``auto`` resolved."""

    def __init__(self, data: dict[str, Any]):
        for name, given in data.items():
            field = Config.model_fields.get(name)
            if field is None:
                raise UserError(f"{name}: unknown key{did_you_mean(name, Config.model_fields)}")
            try:
                value = TypeAdapter(field.rebuild_annotation()).validate_python(given)
            except ValidationError as error:
                raise UserError(f"config:\n  {faults(error, name)}") from None
            if isinstance(given, dict) and IN_LOG in os.environ:  # in a job, not by hand, a step that reads
                for lacking in sections.keys_of(field).keys() - given:  # what its rule leaves out raises `Undeclared`
                    vars(value).pop(lacking, None)
            setattr(self, name, value)

    @property
    def precision(self) -> Precision:
        """``extraction.precision``; float32 if a step is run by hand without that section."""
        section: sections.Extraction | None = vars(self).get("extraction")
        return "float32" if section is None else section.precision

    @property
    def looked_at(self) -> sections.MemorySelection:
        """``triggers.keys``; None, for all, if the rule does not declare it, as rules do only where it is set."""
        section: sections.Triggers | None = vars(self).get("triggers")
        return None if section is None else section.keys

    if not TYPE_CHECKING:  # type checkers then report keys that the config lacks

        def __getattr__(self, name: str) -> Any:
            raise sections.Undeclared(name)

    @classmethod
    def from_argument(cls, text: str) -> "Settings":
        """Read ``--config``: a config file's path, or the declared sections themselves as JSON."""
        if text.lstrip().startswith("{"):
            return cls(foreign.json_of(text, "--config", dict[str, Any]))
        return cls(load(text).resolved())
