"""Read the claims of the sections' ``claims.toml``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ff_memories.base import sections
from ff_memories.judge.measurement import Limit
from ff_memories.judge.statistics import wilson
from ff_memories.judge.wording import natural

MODELS = ("untrained", "same_sample", "shuffled", "together")  # baselines of every claim
UNTRAINED, SAME_SAMPLE, SHUFFLED, TOGETHER = MODELS
BEYOND = "beyond the paper"


@dataclass(frozen=True)
class Claim:
    """One claim of the paper or beyond it, as the `claims.toml` of its section declares it: in order of its number.

    Layers and numbers of layers refer to the paper's 16. In a model of another depth they scale with it.
    """

    id: str  # the next free number: claims stand in this order, in the section that `source` names
    name: str  # a short name, used for the claim's metric in DVC
    statement: str  # what the paper claims
    # what a run found, wherever it is told in words; {value} is the measured number, {size} the same without its sign,
    # and of {more|less} the first word is said of a number above zero
    sentence: str
    source: str
    paper_value: str
    # stated (in the paper's text or a table), read off a figure (by eye, roughly), derived from other values, or beyond
    # the paper, which states no such thing
    known: str
    check: str  # section.function of its `claims` module, called with `parameters`; the file has the function
    # what it measures that may be defined in another way on models of transformers: coefficients, values, active
    # memories, predictions (of r, y and o), sums (that o is read as r + y)
    rests_on: tuple[str, ...]
    measured_as: str
    unit: str  # how the measured number is shown: share, points, change, factor, correlation, layer or number
    resampled: str  # what the interval and the test resample: keys, values, examples, compositions or memories
    least: int  # with fewer units (of those resampled, not their rows), no judgement
    words: str  # what is measured in plain words, for tables and figures that show no number of a claim
    # what the judged number must reach (at_least) or must not exceed (at_most); at_least_like: the lower end of the
    # 95 % interval of so many in a hundred. The whole interval must lie within, so a limit leaves room around the
    # paper's number: a run with exactly that number must be able to show the claim. Without a limit, it is measured and
    # not judged
    limit: Limit | None = None
    limit_source: str | None = None  # paper (its text), figure (read off by eye) or ours
    limit_from: str = ""  # what that says
    parameters: Mapping[str, Any] = field(default_factory=dict)
    paper_number: float | None = None  # the paper's value as one number in the claim's unit, where it has one
    headline: bool = False  # it stands in the table of findings
    by_construction: bool = False  # it is true of any such network, so it is a check and counts for nothing
    chance: str | None = None  # the baseline whose number is what chance gives, unless the check says it itself
    # the paper's value rests on human judgement; an automatic proxy gives a number but reproduces nothing
    human: bool = False
    # what the same check measures besides untrained models (ff_memories.paper.baselines)
    baselines: tuple[str, ...] = MODELS
    # the smallest difference from untrained models that matters, if it is not that of the unit
    # (ff_memories.judge.training)
    matters: float | None = None
    # where the sentence stands besides the table of claims: section, the answer of its section in the report; first,
    # also on the first screen and the terminal; K1, also in the same sentence as that claim
    shown: str = ""
    next_tokens: bool = False  # it is about tokens that follow triggers, which a text sampled from the model makes easy
    judged_as: str = ""  # the number that is judged, if it is not the measured one
    judged_unit: str = ""  # of that number
    null: float | None = None  # the value that the test compares the direction's number with
    alternative: str = "greater"  # the side that the claim states

    @property
    def beyond(self) -> bool:
        """Return whether the claim goes beyond the paper, so no model can reproduce it."""
        return self.known == BEYOND

    @property
    def paper(self) -> str:
        """Return the paper's value, and how it is known unless the paper states it."""
        return self.paper_value if self.known == "stated" else f"{self.paper_value} ({self.known})"


def _limit(at_least: float | None = None, at_most: float | None = None, at_least_like: int | None = None) -> Limit:
    """Return a limit as the file has it; ``at_least_like``: the lower end of the interval of so many in a hundred."""
    return Limit(at_least if at_least_like is None else wilson(at_least_like, 100)[0], at_most)


def _claim(section: str, entry: dict[str, Any]) -> Claim:
    more = {"judged_as": entry["measured_as"], "judged_unit": entry["unit"]} | entry
    more["check"] = f"{section}.{entry['check']}"
    more["limit"] = _limit(**entry["limit"]) if "limit" in entry else None
    more["baselines"] = tuple(dict.fromkeys((*MODELS, *entry.get("baselines", ()))))
    return Claim(**more)


@cache
def register() -> tuple[Claim, ...]:
    """Return all claims, in the paper's order, then those beyond it."""
    declared = sections.declared("ff_memories.paper.*.claims.toml")
    claims = [_claim(section, entry) for section, entries in declared.items() for entry in entries["claim"]]
    return tuple(sorted(claims, key=lambda claim: natural(claim.id)))
