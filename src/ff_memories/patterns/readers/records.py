"""Check what annotators wrote, in any file format, and report all problems by file and row."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ff_memories.base.errors import UserError
from ff_memories.patterns.sample import FEWEST
from ff_memories.tables.annotation import ANNOTATOR, PEOPLE, TYPES, prefix_meant

CONVERTED = re.compile(r"\d[-/.:]\s*\d|\d.*[^\W\d_]{3}|[^\W\d_]{3}.*\d")  # 3-5, 03:05, 3.5, 5. Mär, Mar-05
FORMULA = re.compile(r"#\S+[?!]|#N/?[AV]")  # what spreadsheets show for invalid formulas
QUOTES = "“”„‟‘’‚«»"


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

    Attributes:
        ranks: of the prefixes with the pattern.
        readable: whether the ranks could be read; if not, a problem reports it.
    """

    pattern: str = ""
    type: str = ""
    description: str = ""
    ranks: tuple[int, ...] = ()
    readable: bool = True


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

    def refuse(self) -> None:
        """Raise ``UserError`` with all problems by file and row, if there are any."""
        if self.found:
            number = lambda part: int(part) if part.isascii() and part.isdigit() else part
            found = sorted(self.found, key=lambda said: [number(part) for part in re.split("([0-9]+)", said)])
            one = len(self.found) == 1
            raise UserError(
                f"{'1 problem' if one else f'{len(self.found)} problems'} in the annotators' files\n  "
                + "\n  ".join(found),
                "correct these rows and run the workflow again (nothing was scored or written)",
            )


def parse_ranks(text: str, place: str, problems: Problems) -> tuple[int, ...] | None:
    """Return the numbers of prefixes, separated by spaces, commas or semicolons."""
    parts = [part for part in re.split(r"[\s,;]+", text) if part]
    odd = [part for part in parts if not (part.isascii() and part.isdigit())]
    if not odd:
        return tuple(map(int, parts))
    if CONVERTED.search(text):
        problems.add(
            place,
            f"{text!r} looks like a date, a time or a decimal that a spreadsheet made from numbers",
            "format the column as text, and separate the prefixes' numbers by spaces, as in 3 5 12",
        )
    else:
        quotes = ", without typographic quotes" if any(q in text for q in QUOTES) else ""
        what = f"{', '.join(map(repr, odd))} is not a prefix number"
        problems.add(place, what, f"separate numbers by spaces{quotes}")
    return None


def check_names(given: Iterable[Given], problems: Problems) -> None:
    """Report names that differ only in case or spaces: one person's labels must not count as two people's."""
    spelled: dict[str, Given] = {}
    said = set()
    for one in given:
        first = spelled.setdefault(" ".join(one.annotator.casefold().split()), one)
        if first.annotator != one.annotator and (one.annotator, one.file) not in said:
            said.add((one.annotator, one.file))
            what = f"{one.annotator!r} is spelled {first.annotator!r} at {first.place}"
            problems.add(one.place, what, "spell each person's name one way, and give two people different names")


@dataclass(frozen=True)
class Shown:
    """The handed-out items: their numbers of prefixes, and the names that items of other samples could have."""

    prefixes: Mapping[str, int]
    identities: frozenset[str] | set[str]

    def stale(self, item: str) -> bool:
        """Say whether an item of this model is no longer in use: its prefixes or the sample changed."""
        return item not in self.prefixes and item.partition("-")[0] in self.identities


def check(records: list[Pattern], shown: Shown, problems: Problems) -> tuple[list[Pattern], list[Pattern]]:
    """Return the valid records and the stale ones; report violations of the rules."""
    kept, stale = [], []
    first: dict[tuple[str, str], Pattern] = {}
    seen: dict[tuple[str, str, str], Pattern] = {}
    for record in records:
        _check_annotator(record, problems)
        if shown.stale(record.item):
            stale.append(record)
        elif record.item not in shown.prefixes:
            problems.add(
                record.place,
                f"unknown item {record.item!r}",
                "use this run's sheet, or move the file to its own run's folder",
            )
            continue
        else:
            kept.append(record)
        before = first.setdefault((record.annotator, record.item), record)
        twin = seen.setdefault((record.annotator, record.item, record.pattern), record)
        if before.file != record.file or twin is not record:
            earlier = before if before.file != record.file else twin
            what = f"{record.annotator} already annotated {record.item} at {earlier.place}"
            problems.add(record.place, what, "keep one of the two")
        elif before is not record and not (before.type and record.type):
            problems.add(
                record.place,
                f'{record.item} has both patterns and "no pattern"',
                f"see also {before.place}; keep one of the two",
            )
        if record.type:
            _check_pattern(record, shown.prefixes.get(record.item), problems)
    return kept, stale


def _check_annotator(record: Given, problems: Problems) -> None:
    if not record.annotator:
        problems.add(record.place, "the annotator's name is missing", "write your name in the column annotator")
    elif record.annotator.casefold() in (ANNOTATOR, PEOPLE):
        problems.add(record.place, f"{record.annotator!r} is a reserved name", "use another name for the annotator")
    elif prefix := prefix_meant(record.annotator):
        what = f"{record.annotator!r} could mean {prefix}…, which is not a person's label"
        hint = f"begin the name with {prefix} exactly, or, for a person, with something else"
        problems.add(record.place, what, hint)


def _check_pattern(record: Pattern, prefixes: int | None, problems: Problems) -> None:
    if record.type not in TYPES:
        problems.add(record.place, f"{record.type!r} is not a type of pattern", _instead(record.type, TYPES))
    if not record.description:
        problems.add(record.place, "the pattern has no description", "describe in words what the prefixes share")
    elif FORMULA.fullmatch(record.description):
        what = f"{record.description!r}: a spreadsheet took the description for a formula"
        problems.add(record.place, what, "format the cell as text, and enter the description again")
    if not record.readable:
        return
    if outside := [r for r in record.ranks if r < 1 or (prefixes is not None and r > prefixes)]:
        most = "" if prefixes is None else f"; prefixes go from 1 to {prefixes}"
        hint = "; a spreadsheet may have joined them or turned them into a date" if max(outside) > 999 else ""
        what = f"unknown prefix {', '.join(map(str, outside))}{most}"
        problems.add(record.place, what, f"correct the numbers{hint}")
    if len(set(record.ranks)) < len(record.ranks):
        problems.add(record.place, "a prefix is listed twice", "list it once")
    if not outside and len(set(record.ranks)) < FEWEST:
        problems.add(
            record.place,
            f"a pattern in only {len(set(record.ranks))} of the prefixes",
            f"a pattern needs at least {FEWEST}: tick the other prefixes that have it, or remove the pattern",
        )


def check_judgements(
    judged: list[Judgement], shown: Mapping[str, int], known: set[str], labels: Iterable[str], problems: Problems
) -> tuple[list[Judgement], list[Judgement]]:
    """Return the valid judgements of E14 and the stale ones; report problems.

    ``known``: the first parts of all names that compositions of this run's examples can have.
    """
    kept, stale = [], []
    seen: dict[tuple[str, str], Judgement] = {}
    for one in judged:
        _check_annotator(one, problems)
        if one.label not in labels:
            problems.add(one.place, f"{one.label!r} is not a judgement", _instead(one.label, tuple(labels)))
        if (before := seen.setdefault((one.annotator, one.item), one)) is not one:
            problems.add(
                one.place, f"{one.annotator} already judged {one.item} at {before.place}", "keep one of the two"
            )
        if one.item in shown:
            kept.append(one)
        elif one.item.partition("-")[0] in known:
            stale.append(one)
        else:
            problems.add(one.place, f"unknown item {one.item!r}", "use this run's sheet")
    return kept, stale


def _instead(given: str, allowed: tuple[str, ...]) -> str:
    plain = given.strip(QUOTES + "\"' ").lower()
    near = difflib.get_close_matches(plain, allowed, 1, 0.5)
    if near and given.strip(QUOTES) != given:
        return f"write {near[0]}, without typographic quotes"
    return f"write {near[0]}" if near else f"write one of {', '.join(allowed)}"
