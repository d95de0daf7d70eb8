"""Check what annotators wrote, and report all problems by file and row."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ff_memories.annotate.distance import LABELS
from ff_memories.annotate.sample import FEWEST
from ff_memories.base.errors import UserError
from ff_memories.tables.annotation import ANNOTATOR, PEOPLE, TYPES, prefix_meant


@dataclass(frozen=True)
class Given:
    """An annotator's statement on an item, and its file; ``place`` is file and row, for messages."""

    place: str
    file: str
    annotator: str
    item: str


@dataclass(frozen=True)
class Pattern(Given):
    """One pattern that an annotator found in an item; without a type, the statement that it has none.

    ``ranks``: of the prefixes with the pattern.
    """

    pattern: str = ""
    type: str = ""
    description: str = ""
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Judgement(Given):
    """An annotator's judgement of one composition of E14."""

    label: str


@dataclass
class Problems:
    """All problems with some files, collected first and then reported together."""

    found: list[str] = field(default_factory=list)

    def add(self, place: str, what: str, hint: str) -> None:
        self.found.append(f"{place}: {what}; {hint}")

    def refuse(
        self, hint: str = "correct these rows and run the workflow again (nothing was scored or written)"
    ) -> None:
        """Raise ``UserError`` with all problems by file and row, if there are any."""
        if self.found:
            by_number = lambda said: [(len(p), p) if i % 2 else p for i, p in enumerate(re.split("([0-9]+)", said))]
            number = "1 problem" if len(self.found) == 1 else f"{len(self.found)} problems"
            said = [f"{number} in the annotators' files", *sorted(self.found, key=by_number)]
            raise UserError("\n  ".join(said), hint)


@dataclass(frozen=True)
class Shown:
    """The handed-out items: their numbers of prefixes, and the first parts of names that other items could have."""

    prefixes: Mapping[str, int]
    identities: frozenset[str] | set[str]

    def stale(self, item: str) -> bool:
        """Say whether an item of this model is no longer in use: its prefixes or the sample changed."""
        return item not in self.prefixes and item.partition("-")[0] in self.identities


def check_names(given: Iterable[Given], problems: Problems) -> None:
    """Report names that do not say who annotated, or that differ from another only in case or spaces."""
    spelled: dict[str, Given] = {}
    checked = set()
    for one in given:
        if (one.annotator, one.file) in checked:
            continue
        checked.add((one.annotator, one.file))
        first = spelled.setdefault(" ".join(one.annotator.casefold().split()), one)
        if not one.annotator:
            problems.add(one.place, "the annotator's name is missing", "write your name in the column annotator")
        elif one.annotator.casefold() in (ANNOTATOR, PEOPLE):
            problems.add(one.place, f"{one.annotator!r} is a reserved name", "use another name for the annotator")
        elif prefix := prefix_meant(one.annotator):
            what = f"{one.annotator!r} could mean {prefix}…, which is not a person's label"
            hint = f"begin the name with {prefix} exactly, or, for a person, with something else"
            problems.add(one.place, what, hint)
        elif first.annotator != one.annotator:
            what = f"{one.annotator!r} is spelled {first.annotator!r} at {first.place}"
            problems.add(one.place, what, "spell each person's name one way, and give two people different names")


def check(records: list[Pattern], shown: Shown, problems: Problems) -> tuple[list[Pattern], list[Pattern]]:
    """Return the valid records and the stale ones; report violations of the rules."""
    kept, stale = [], []
    first: dict[tuple[str, str], Pattern] = {}
    seen: dict[tuple[str, str, str], Pattern] = {}
    for record in records:
        if shown.stale(record.item):
            stale.append(record)
        elif record.item in shown.prefixes:
            kept.append(record)
        else:
            problems.add(record.place, f"unknown item {record.item!r}", "use this run's form, or its own run's folder")
            continue
        before = first.setdefault((record.annotator, record.item), record)
        twin = seen.setdefault((record.annotator, record.item, record.pattern), record)
        if before.file != record.file or twin is not record:
            earlier = before if before.file != record.file else twin
            what = f"{record.annotator} already annotated {record.item} at {earlier.place}"
            problems.add(record.place, what, "keep one of the two")
        elif before is not record and not (before.type and record.type):
            what = f'{record.item} has both patterns and "no pattern"'
            problems.add(record.place, what, f"see also {before.place}; keep one of the two")
        if record.type:
            _check_pattern(record, shown.prefixes.get(record.item), problems)
    return kept, stale


def _check_pattern(record: Pattern, prefixes: int | None, problems: Problems) -> None:
    ranks = set(record.ranks)
    if record.type not in TYPES:
        problems.add(record.place, f"{record.type!r} is not a type of pattern", f"write {' or '.join(TYPES)}")
    if not record.description:
        problems.add(record.place, "the pattern has no description", "describe in words what the prefixes share")
    if outside := sorted(rank for rank in ranks if rank < 1 or (prefixes is not None and rank > prefixes)):
        most = "" if prefixes is None else f"; prefixes go from 1 to {prefixes}"
        problems.add(record.place, f"unknown prefix {', '.join(map(str, outside))}{most}", "correct the numbers")
    elif len(ranks) < len(record.ranks):
        problems.add(record.place, "a prefix is listed twice", "list it once")
    elif len(ranks) < FEWEST:
        what = f"a pattern in only {len(ranks)} of the prefixes"
        hint = f"a pattern needs at least {FEWEST}: tick the other prefixes that have it, or remove the pattern"
        problems.add(record.place, what, hint)


def check_judgements(
    judged: list[Judgement], shown: Mapping[str, int], known: set[str], problems: Problems
) -> tuple[list[Judgement], list[Judgement]]:
    """Return the valid judgements of E14 and the stale ones; report problems.

    ``known``: the first parts of all names that compositions of this run's examples can have.
    """
    kept, stale = [], []
    seen: dict[tuple[str, str], Judgement] = {}
    for one in judged:
        before = seen.setdefault((one.annotator, one.item), one)
        if one.label not in LABELS:
            problems.add(one.place, f"{one.label!r} is not a judgement", f"write {' or '.join(LABELS)}")
        if before is not one:
            what = f"{one.annotator} already judged {one.item} at {before.place}"
            problems.add(one.place, what, "keep one of the two")
        if one.item in shown:
            kept.append(one)
        elif one.item.partition("-")[0] in known:
            stale.append(one)
        else:
            problems.add(one.place, f"unknown item {one.item!r}", "use this run's form")
    return kept, stale
