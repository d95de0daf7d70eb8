"""The report's sections, in the paper's order: which figures, tables and claims belong to each."""

import re
from dataclasses import dataclass

from ff_memories.claims.register import Claim

_SECTION = re.compile(r"section (\d(?:\.\d)?)")
_PLACE = re.compile(r"(Figure|Table) (\d+)")


@dataclass(frozen=True)
class Section:
    """One section: its number in the paper, our title for it, and what stands in it."""

    number: str
    title: str
    question: str
    parts: tuple[str, ...]


SECTIONS = (
    Section("3.2", "Keys and what triggers them",
            "Do keys respond to patterns that people recognise, and to which part of a prefix?",
            ("figure2", "table1", "table3", "figure3")),
    Section("4", "Values and what they predict",
            "Does a value, read as a distribution over the vocabulary, predict what follows its key's triggers?",
            ("figure4", "figure5", "figure6", "table2")),
    Section("5.1", "Memories of one layer together",
            "Is a layer's output the work of a single memory, or of many?",
            ("figure7", "figure8")),
    Section("5.2", "Predictions from layer to layer",
            "How does the residual stream arrive at the model's output?",
            ("figure9", "figure10", "figure11")),
)  # fmt: skip


def section_of(claim: Claim) -> str:
    """Return the number of the paper's section that makes a claim."""
    found = _SECTION.search(claim.source)
    if found is None:
        raise ValueError(f"{claim.id}: {claim.source!r} names no section")
    return found[1]


def part_of(claim: Claim) -> str | None:
    """Return the figure or table that shows it, as in ``figure3``; ``None`` where only the text says it."""
    found = _PLACE.search(claim.source)
    return found and f"{found[1].lower()}{found[2]}"
