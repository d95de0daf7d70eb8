"""The report's sections, in the paper's order, each with its figures, tables and claims."""

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ff_memories.claims import own_text
from ff_memories.claims.numbers import needed
from ff_memories.claims.order import natural
from ff_memories.claims.register import Claim, register
from ff_memories.claims.shown import summary
from ff_memories.figures.registry import FIGURES
from ff_memories.tables.annotation import ANNOTATOR

_SECTION = re.compile(r"section (\d(?:\.\d)?)")
_PLACE = re.compile(r"(Figure|Table) (B?\d+)")


BEYOND = "beyond"  # the section of what the paper does not do


@dataclass(frozen=True)
class PaperSection:
    """One section: its number in the paper, or ``BEYOND``, our title and question, and its tables."""

    number: str
    title: str
    question: str
    tables: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """Return where it stands, such as ``section 4``."""
        return "beyond the paper" if self.number == BEYOND else f"section {self.number}"

    @property
    def parts(self) -> tuple[str, ...]:
        """Return its figures, the most telling first, and its tables."""
        own = [name for name, figure in FIGURES.items() if figure.section == self.number]
        return *sorted(own, key=lambda name: FIGURES[name].place), *self.tables


SECTIONS = (
    PaperSection(
        "3.2",
        "Keys and their triggers",
        "Do keys respond to patterns that people recognise? To which part of a prefix?",
        ("table1", "table3"),
    ),
    PaperSection(
        "4",
        "Values and their predictions",
        "Does a value, read as a distribution over the vocabulary, predict the token after its key's triggers?",
        ("table2",),
    ),
    PaperSection("5.1", "Memories within a layer", "Is a layer's prediction made by a single memory or by many?"),
    PaperSection("5.2", "Predictions across layers", "When does the residual stream settle on the model's output?"),
    PaperSection(
        BEYOND,
        "Memories removed",
        "Does a memory do what its value says, once the layers above have run? Does a prediction survive without it?",
    ),
)
PROXY = "labelled by an automatic proxy"
OWN_TEXT = "on text sampled from the model"


def rows(claims: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of the `claims` table in natural order, with measure, unit, section, part and proxy flag."""
    known = {claim.id: claim for claim in register()}
    return [
        row
        | {
            "verdict": summary.shown(row["verdict"], row["measured"]),
            "measured_as": known[row["claim"]].measured_as,
            "unit": known[row["claim"]].unit,
            "judged_as": known[row["claim"]].judged_as,
            "judged_unit": known[row["claim"]].judged_unit,
            "needed": _needed(row, known[row["claim"]]),
            "limit_from": known[row["claim"]].limit_from,
            "beyond": known[row["claim"]].beyond,
            "section": section_of(known[row["claim"]]),
            "part": part_of(known[row["claim"]]),
            "proxy": ANNOTATOR in (row["reason"] or ""),
            "own_text": own_text.SAID in (row["reason"] or ""),
        }
        for row in sorted(claims.iter_rows(named=True), key=lambda row: natural(row["claim"]))
    ]


def _needed(row: dict[str, Any], claim: Claim) -> str:
    """Return in words what a claim needs here; of a number of layers, the paper's is scaled to the model's."""
    return needed(
        replace(claim.limit, low=math.ceil(row["limit"]))
        if claim.judged_unit == "number" and row["limit"] is not None and claim.limit.high is None
        else claim.limit,
        claim.judged_unit,
    )


def section_of(claim: Claim) -> str:
    """Return the number of the paper's section that makes the claim, or ``BEYOND``.

    Raises ``ValueError`` if its source names none.
    """
    if claim.beyond:
        return BEYOND
    found = _SECTION.search(claim.source)
    if found is None:
        raise ValueError(f"{claim.id}: {claim.source!r} names no section")
    return found[1]


def part_of(claim: Claim) -> str | None:
    """Return the figure or table that shows the claim, such as ``figure3``; ``None`` if only the text states it."""
    found = _PLACE.search(claim.source)
    return found and f"{found[1]}{found[2]}".lower()
