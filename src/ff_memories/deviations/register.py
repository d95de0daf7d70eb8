"""The entries of ``deviations.toml``, typed."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ff_memories.config import FIDELITY, RELEASED_ONLY


@dataclass(frozen=True)
class Key:
    """One config key that decides an open question.

    Attributes:
        key: its path.
        default: its value by the paper's reading.
        alternatives: the other values that are spoken of.
        share: whether the alternatives are shares of the training sentences, as ``sensitivity`` takes them.
    """

    key: str
    default: str
    alternatives: tuple[str, ...]
    share: bool = False

    @property
    def released(self) -> str | None:
        """What the released code does, by the config's own table; None where that says nothing."""
        released = FIDELITY["released"] | RELEASED_ONLY | {"fidelity": "released"}
        return released.get(self.key)


@dataclass(frozen=True)
class Entry:
    """One deviation or open question; ``deviations.toml`` says what each attribute means."""

    id: str
    title: str
    paper: str
    released: str
    here: str
    where: str = ""
    reported: str = ""
    keys: tuple[Key, ...] = ()


@cache
def register() -> tuple[Entry, ...]:
    """Return all entries, in the file's order."""
    text = files("ff_memories.deviations").joinpath("deviations.toml").read_text(encoding="utf-8")
    return tuple(
        Entry(**raw | {"keys": tuple(Key(**k | {"alternatives": tuple(k["alternatives"])}) for k in raw["keys"])})
        for raw in ({"keys": []} | entry for entry in tomllib.loads(text)["entry"])
    )
