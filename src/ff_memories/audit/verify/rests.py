"""Say what each verdict rests on, and how that was checked."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories import tables
from ff_memories.audit.recompute.basis import At
from ff_memories.base.annotators import ANNOTATOR
from ff_memories.claims.evidence import Evidence, Missing
from ff_memories.claims.judging.verdicts import measure
from ff_memories.claims.register import register
from ff_memories.config import Settings
from ff_memories.model.info import read_info
from ff_memories.workflow.runs.run import Run

BASELINE = "baselines "  # in front of a table of untrained models
PEOPLE = "annotators' answers, which cannot be recomputed"
JUDGED_BY_PEOPLE = tuple(name for name, schema in tables.TABLES.items() if schema.names_people == "annotator")


class ReadTables(dict[str, pl.DataFrame]):
    """Tables that know which of them were read."""

    def __init__(self, frames: Mapping[str, pl.DataFrame]):
        super().__init__(frames)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> pl.DataFrame:
        self.read.add(name)
        return super().__getitem__(name)


@dataclass(frozen=True)
class Rests:
    """A verdict, and {table behind it: how it was checked}; ``None`` for a table that was not checked."""

    verdict: str
    checked: dict[str, str | None]

    @property
    def whole(self) -> bool:
        return all(self.checked.values())


def verdicts(run: Run, at: At, how: Mapping[str, str]) -> dict[str, Rests]:
    """Return {claim: what its verdict rests on}.

    Args:
        at: from a file of the run to the place to read it from.
        how: {table: how it was checked}; tables of untrained models have ``BASELINE`` in front.
    """
    found = {}
    claims = tables.read(at(run.table("claims"))).select("claim", "verdict", "baseline")
    read = behind(run, at)
    people = any(
        bool((tables.read(at(run.table(name)))["annotator"] != ANNOTATOR).any())
        for name in JUDGED_BY_PEOPLE
        if at(run.table(name)).is_file()
    )
    for claim, verdict, baseline in claims.iter_rows():
        own = sorted(read[claim])
        names = [*own, *(BASELINE + name for name in own if baseline is not None)]
        found[claim] = Rests(
            verdict,
            {
                name: f"{how[name]}; {PEOPLE}" if people and name in how and name in JUDGED_BY_PEOPLE else how.get(name)
                for name in names
            },
        )
    return found


def behind(run: Run, at: At) -> dict[str, set[str]]:
    """Return {claim: the tables that its measure reads}, found by measuring it."""
    names = [name for name in tables.TABLES if Path(at(run.table(name))).is_file()]
    frames = {name: tables.read(at(run.table(name))) for name in names}
    info = read_info(at(run.path("model", "info.json")))
    evidence = Evidence.of_run(Settings(run.resolved), info, at(run.dictionary), frames)
    found = {}
    for claim in register():
        seen = ReadTables(frames)
        with suppress(Missing):
            measure(claim, replace(evidence, tables=seen, seed=None))
        found[claim.id] = seen.read
    return found


def unchecked(found: Mapping[str, Rests]) -> Iterator[str]:
    """Yield, in words, the tables that were not checked and the verdicts that rest on them."""
    lacking: dict[str, list[str]] = {}
    for claim, rests in found.items():
        for name, said in rests.checked.items():
            if said is None:
                lacking.setdefault(name, []).append(claim)
    for name, claims in lacking.items():
        yield f"{name} was not checked: {', '.join(claims)}"


def data(found: Mapping[str, Rests]) -> dict[str, Any]:
    """Return the same for the certificate."""
    return {claim: {"verdict": rests.verdict, "rests_on": rests.checked} for claim, rests in found.items()}
