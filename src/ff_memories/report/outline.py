"""The report's sections, in the paper's order, each with its figures, tables and claims."""

import math
import re
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories.figures.registry import FIGURES
from ff_memories.judge.measurement import Limit
from ff_memories.judge.numbers import needed
from ff_memories.judge.register import Claim, register
from ff_memories.judge.wording import BASELINES, against, natural, notes, standing

OF_CLAIM = (  # attributes of a claim that its row shows
    "sentence", "shown", "words", "rests_on", "measured_as", "unit", "judged_as", "judged_unit", "limit_from", "beyond",
    "by_construction",
)  # fmt: skip
BEYOND = "beyond"  # the section of what the paper does not do


@dataclass(frozen=True)
class PaperSection:
    """One section: its number in the paper, or ``BEYOND``, our title and question, and its tables."""

    number: str
    title: str
    question: str
    tables: Sequence[str] = ()

    @property
    def heading(self) -> str:
        """Return where it stands, such as ``section 4``."""
        return "beyond the paper" if self.number == BEYOND else f"section {self.number}"

    @property
    def parts(self) -> tuple[str, ...]:
        """Return its figures, the most telling first, and its tables."""
        figures = [name for name, figure in FIGURES.items() if figure.section == self.number]
        return *sorted(figures, key=lambda name: FIGURES[name].place), *self.tables


_declared = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SECTIONS = tuple(PaperSection(**section) for section in _declared["section"])


def rows(claims: pl.DataFrame, baselines: pl.DataFrame | None = None) -> list[dict[str, Any]]:
    """Return `claims` in natural order, with what the register, the outline and any `baselines` say of each."""
    by_id, out, measured = {claim.id: claim for claim in register()}, [], defaultdict[str, list[Any]](list)
    order = list(BASELINES).index
    for row in sorted([] if baselines is None else baselines.to_dicts(), key=lambda row: order(row["baseline"])):
        measured[row["claim"]].append(row | {"about": BASELINES[row["baseline"]]})
    for row in sorted(claims.iter_rows(named=True), key=lambda row: natural(row["claim"])):
        claim = by_id[row["claim"]]
        entry = {name: getattr(claim, name) for name in OF_CLAIM} | row
        entry |= {
            "standing": standing(entry),
            "against": against(entry),
            "needed": _needed(row, claim),
            "section": section_of(claim),
            "part": part_of(claim),
            "notes": notes(row["reason"]),
            "baselines": measured.get(row["claim"], []),
        }
        out.append(entry)
    return out


def _needed(row: dict[str, Any], claim: Claim) -> str:
    """Return in words what a claim needs here; a number of layers is scaled to the model's, and a proxy needs less."""
    limit = claim.limit
    if limit is None:
        return ""
    if row["limit"] is not None and limit.high is None:
        limit = Limit(math.ceil(row["limit"]) if claim.judged_unit == "number" else row["limit"])
    return needed(limit, claim.judged_unit)


def section_of(claim: Claim) -> str:
    """Return the number of the section that makes the claim, or ``BEYOND``."""
    return BEYOND if claim.beyond else re.findall(r"section (\d(?:\.\d)?)", claim.source)[0]


def part_of(claim: Claim) -> str | None:
    """Return the figure or table that shows the claim, such as ``figure3``; ``None`` if only the text states it."""
    part = re.search(r"(Figure|Table) (B?\d+)", claim.source)
    return part and f"{part[1]}{part[2]}".lower()
