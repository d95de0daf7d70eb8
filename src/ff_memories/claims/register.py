"""Read and check the claims of ``claims.toml``."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from ff_memories.claims.order import natural
from ff_memories.tables import BASELINES

MODELS = ("untrained", "same_sample")  # baselines of every claim
KNOWN = ("stated", "read off a figure", "derived")
PARTS = ("coefficients", "values", "active memories", "predictions", "chance", "sums")  # what a claim may rest on


@dataclass(frozen=True)
class Claim:
    """One claim of the paper; ``claims.toml`` documents its attributes."""

    id: str
    name: str
    statement: str
    source: str
    paper_value: str
    known: str
    check: str
    parameters: Mapping[str, Any]
    rests_on: tuple[str, ...]
    measured_as: str
    unit: str
    resampled: str
    directional: bool = False
    human: bool = False
    baselines: tuple[str, ...] = MODELS
    direction: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    null: float | None = None
    alternative: str = "greater"

    def __post_init__(self) -> None:
        object.__setattr__(self, "baselines", tuple(dict.fromkeys((*MODELS, *self.baselines))))
        if unknown := set(self.baselines) - set(BASELINES):
            raise ValueError(f"{self.id}: unknown baseline {min(unknown)}")
        if unknown := set(self.rests_on) - set(PARTS):
            raise ValueError(f"{self.id}: rests_on has {min(unknown)!r}, not one of {', '.join(PARTS)}")
        if self.alternative not in ("greater", "less"):
            raise ValueError(f"{self.id}: alternative is {self.alternative!r}")
        if self.known not in KNOWN:
            raise ValueError(f"{self.id}: known is {self.known!r}, not one of {', '.join(KNOWN)}")

    def judged(self, scope: str) -> bool:
        """Return whether a run of this scope (``model.scope``) judges the claim."""
        return scope == "paper" or self.directional or (scope == "model" and bool(self.model))

    @property
    def paper(self) -> str:
        """Return the paper's value, and how it is known unless the paper states it."""
        return self.paper_value if self.known == "stated" else f"{self.paper_value} ({self.known})"


@cache
def register() -> tuple[Claim, ...]:
    """Return all claims, in the paper's order."""
    text = files("ff_memories.claims").joinpath("claims.toml").read_text(encoding="utf-8")
    return tuple(sorted((Claim(**entry) for entry in tomllib.loads(text)["claim"]), key=lambda c: natural(c.id)))
