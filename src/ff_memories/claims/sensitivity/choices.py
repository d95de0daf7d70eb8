"""The choices that a run could have made otherwise, read off the config's own types: nothing is listed twice."""

import copy
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from ff_memories.base import gpu_locks
from ff_memories.base.errors import UserError
from ff_memories.config import FIDELITY, RELEASED_ONLY, Config, keys_of, parse

SECTIONS = ("corpus", "extraction", "triggers", "mutations", "values", "composition")
QUICK = ("values", "composition")  # neither the trigger pass nor the mutations, most of a run's work
SIZE = "corpus.train.max_sentences"
SHARES = ("0.01", "0.1")  # of the training sentences: how claims depend on the corpus's size (D31)


@dataclass(frozen=True)
class Choice:
    """One key of a run's config and a value that it could have had: ``values.target`` and ``last``."""

    path: str
    value: str

    @property
    def section(self) -> str:
        return self.path.partition(".")[0]

    @property
    def name(self) -> str:
        """Return its name in paths and on command lines."""
        return f"{self.path}={self.value}"


def _alternatives(config: Config) -> Iterator[Choice]:
    resolved = config.resolved()
    for section in SECTIONS:
        for key, field in keys_of(Config.model_fields[section]).items():
            values = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            for value in values:
                if value not in ("auto", resolved[section][key]):
                    yield Choice(f"{section}.{key}", value)
    segmenter = resolved["corpus"]["segmenter"]
    yield from (Choice("corpus.segmenter", value) for value in ("rule", "line") if value != segmenter)
    yield from (Choice(SIZE, share) for share in SHARES)
    yield from (Choice("fidelity", value) for value in FIDELITY if value != config.fidelity)


def choices(config: Config) -> list[Choice]:
    """Return every choice that the run could have made otherwise and that can be made on this machine."""
    lacking = set()
    if importlib.util.find_spec("spacy") is None:
        lacking.add("spacy")
    if not gpu_locks.present():
        lacking.add("tf32")
    return [choice for choice in _alternatives(config) if choice.value not in lacking and _can_be(config, choice)]


def _can_be(config: Config, choice: Choice) -> bool:
    """Whether the config can be with one choice made so: some choices exclude others."""
    try:
        varied(config, choice, 1)
    except UserError:
        return False
    return True


def parts(config: Config, extent: str = "all") -> dict[str, list[Choice]]:
    """Return the choices as units of work: quick ones by section, each of the others by itself.

    spaCy's stop words are by themselves, too: what a section measures must not depend on what is installed.

    Args:
        extent: ``quick``: only those of the values and the composition | ``all``.
    """
    found: dict[str, list[Choice]] = {}
    for choice in choices(config):
        if choice.section in QUICK and choice.value != "spacy":
            found.setdefault(choice.section, []).append(choice)
        elif extent == "all":
            found[choice.name] = [choice]
    return found


def varied(config: Config, choice: Choice, train_sentences: int) -> Config:
    """Return the run's config with one choice made otherwise and everything else as it was.

    Args:
        train_sentences: of the run, of which a share may be taken.
    """
    plain = copy.deepcopy(config.resolved())
    if choice.path == "fidelity":
        plain["fidelity"] = choice.value
        for path in FIDELITY[choice.value]:
            _set(plain, path, "auto")
        for path, value in RELEASED_ONLY.items() if choice.value == "released" else ():
            _set(plain, path, value)
    else:
        plain["fidelity"] = "paper"  # every key is explicit, and only that one contradicts none
        share = choice.path == SIZE
        _set(plain, choice.path, max(1, round(train_sentences * float(choice.value))) if share else choice.value)
    return parse(plain, choice.name)


def _set(plain: dict[str, Any], path: str, value: Any) -> None:
    *sections, key = path.split(".")
    for section in sections:
        plain = plain[section]
    plain[key] = value
