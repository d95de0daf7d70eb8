"""List a run's alternative analysis choices, derived from the types in the config."""

import copy
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from ff_memories.base import machine
from ff_memories.base.errors import UserError
from ff_memories.config import FIDELITY, RELEASED_ONLY, Config, keys_of, parse

SECTIONS = ("corpus", "extraction", "triggers", "mutations", "values", "composition")
QUICK = ("values", "composition")  # need neither the trigger pass nor the mutations, which take most of a run's time
SIZE = "corpus.train.max_sentences"
SHARES = ("0.01", "0.1")  # of the training sentences, to see how claims depend on the corpus's size (D31)


@dataclass(frozen=True)
class Choice:
    """A key of a run's config with an alternative value, such as ``values.target`` and ``last``."""

    path: str
    value: str

    @property
    def section(self) -> str:
        return self.path.partition(".")[0]

    @property
    def name(self) -> str:
        """Return the name used in paths and on command lines."""
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
    """Return every alternative choice that this machine can run."""
    lacking = set()
    if importlib.util.find_spec("spacy") is None:
        lacking.add("spacy")
    if not machine.gpu_present():
        lacking.add("tf32")
    return [choice for choice in _alternatives(config) if choice.value not in lacking and _can_be(config, choice)]


def _can_be(config: Config, choice: Choice) -> bool:
    """Say whether the config allows a choice: some choices exclude others."""
    try:
        varied(config, choice, 1)
    except UserError:
        return False
    return True


def parts(config: Config, extent: str = "all") -> dict[str, list[Choice]]:
    """Return the choices grouped into jobs: quick ones by section, each of the others alone.

    spaCy's stop words are also alone, since a section's results must not depend on installed packages.

    Args:
        extent: ``quick`` (only choices in ``values`` and ``composition``) or ``all``.
    """
    found: dict[str, list[Choice]] = {}
    for choice in choices(config):
        if choice.section in QUICK and choice.value != "spacy":
            found.setdefault(choice.section, []).append(choice)
        elif extent == "all":
            found[choice.name] = [choice]
    return found


def varied(config: Config, choice: Choice, train_sentences: int) -> Config:
    """Return the run's config with one choice changed.

    Args:
        train_sentences: the run's number of training sentences, for choices that use a share of them.
    """
    plain = copy.deepcopy(config.resolved())
    if choice.path == "fidelity":
        plain["fidelity"] = choice.value
        for path in FIDELITY[choice.value]:
            _set(plain, path, "auto")
        for path, value in RELEASED_ONLY.items() if choice.value == "released" else ():
            _set(plain, path, value)
    else:
        plain["fidelity"] = "paper"  # all keys are explicit, and only "paper" contradicts none of them
        share = choice.path == SIZE
        _set(plain, choice.path, max(1, round(train_sentences * float(choice.value))) if share else choice.value)
    return parse(plain, choice.name)


def _set(plain: dict[str, Any], path: str, value: Any) -> None:
    *sections, key = path.split(".")
    for section in sections:
        plain = plain[section]
    plain[key] = value
