"""Read and check the claims of ``claims.toml``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ff_memories.claims.measurement import Limit
from ff_memories.claims.statistics import wilson
from ff_memories.claims.wording import beyond, contents, natural
from ff_memories.tables import BASELINES

UNTRAINED, SAME_SAMPLE, SHUFFLED = MODELS = ("untrained", "same_sample", "shuffled")  # baselines of every claim
HUNDRED = 100
BEYOND = "beyond the paper"
KNOWN = ("stated", "read off a figure", "derived", BEYOND)
PARTS = ("coefficients", "values", "active memories", "predictions", "sums")  # what a claim may rest on


@dataclass(frozen=True)
class Claim:
    """One claim of the paper or beyond it; ``claims.toml`` documents its attributes."""

    id: str
    name: str
    statement: str
    sentence: str
    source: str
    paper_value: str
    known: str
    check: str
    rests_on: tuple[str, ...]
    measured_as: str
    unit: str
    resampled: str
    limit: Any
    limit_source: str
    limit_from: str
    least: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    directional: bool = False
    human: bool = False
    baselines: tuple[str, ...] = MODELS
    matters: float | None = None
    shown: str = ""
    next_tokens: bool = False
    judged_as: str = ""
    judged_unit: str = ""
    less_untrained: bool = False
    null: float | None = None
    alternative: str = "greater"

    def __post_init__(self) -> None:
        object.__setattr__(self, "baselines", tuple(dict.fromkeys((*MODELS, *self.baselines))))
        object.__setattr__(self, "limit", _limit(self.limit))
        object.__setattr__(self, "judged_as", self.judged_as or self.measured_as)
        object.__setattr__(self, "judged_unit", self.judged_unit or self.unit)
        if unknown := set(self.baselines) - set(BASELINES):
            raise ValueError(f"{self.id}: unknown baseline {min(unknown)}")
        if unknown := set(self.rests_on) - set(PARTS):
            raise ValueError(f"{self.id}: rests_on has {min(unknown)!r}, not one of {', '.join(PARTS)}")
        if self.known not in KNOWN:
            raise ValueError(f"{self.id}: known is {self.known!r}, not one of {', '.join(KNOWN)}")
        if (self.known == BEYOND) != beyond(self.id):
            raise ValueError(f"{self.id}: the paper's claims are K1 and so on, and only others are {BEYOND}")

    @property
    def beyond(self) -> bool:
        """Return whether the claim goes beyond the paper, so no model can reproduce it."""
        return self.known == BEYOND

    def judged(self, scope: str) -> bool:
        """Return whether a run of this scope (``model.info``) judges the claim."""
        return scope == "paper" or self.directional

    @property
    def paper(self) -> str:
        """Return the paper's value, and how it is known unless the paper states it."""
        return self.paper_value if self.known == "stated" else f"{self.paper_value} ({self.known})"


def _limit(given: Any) -> Limit:
    """Return a limit as the file has it; ``at_least_like``: the lower end of the interval of so many in a hundred."""
    if isinstance(given, Limit):
        return given
    ends = dict(given)
    if "at_least_like" in ends:
        ends = {"at_least": wilson(ends.pop("at_least_like"), HUNDRED)[0]}
    return Limit(ends.pop("at_least", None), ends.pop("at_most", None))


@cache
def register() -> tuple[Claim, ...]:
    """Return all claims, in the paper's order, then those beyond it."""
    return tuple(sorted((Claim(**entry) for entry in contents()["claim"]), key=lambda claim: natural(claim.id)))
