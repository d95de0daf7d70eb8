"""What annotators wrote, whatever the file's format, and all that can be wrong with it, named by file and row."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ff_memories.base.errors import UserError
from ff_memories.patterns.annotators import ANNOTATOR, PEOPLE, TYPES
from ff_memories.patterns.sample import FEWEST

CONVERTED = re.compile(r"\d[-/.:]\s*\d|\d.*[^\W\d_]{3}|[^\W\d_]{3}.*\d")  # 3-5, 03:05, 3.5, 5. Mär, Mar-05
FORMULA = re.compile(r"#\S+[?!]|#N/?[AV]")  # what spreadsheets show of formulas that they do not understand
QUOTES = "“”„‟‘’‚«»"


@dataclass(frozen=True)
class Given:
    """Whatever an annotator said of an item, and in which file; ``place``, for messages, is file and row."""

    place: str
    file: str
    annotator: str
    item: str


@dataclass(frozen=True)
class Record(Given):
    """One pattern that an annotator found in an item; without a type: that there is none in it.

    Attributes:
        ranks: of the prefixes that have the pattern.
        readable: whether the ranks could be read; if not, a problem tells of it.
    """

    pattern: str = ""
    type: str = ""
    description: str = ""
    ranks: tuple[int, ...] = ()
    readable: bool = True


@dataclass(frozen=True)
class Judgement(Given):
    """One composition of E14, as an annotator judged it."""

    label: str


@dataclass
class Problems:
    """Everything that is wrong with some files: gathered first, then said at once."""

    found: list[str] = field(default_factory=list)

    def add(self, place: str, what: str, hint: str) -> None:
        self.found.append(f"{place}: {what}; {hint}")

    def refuse(self) -> None:
        """Raise ``UserError`` with all of them, by file and row, if there are any."""
        if self.found:
            found = sorted(
                self.found, key=lambda said: [int(t) if t.isdigit() else t for t in re.split("([0-9]+)", said)]
            )
            one = len(self.found) == 1
            raise UserError(
                f"{'one thing is' if one else f'{len(self.found)} things are'} wrong with the annotators' files\n  "
                + "\n  ".join(found),
                "correct the rows named (nothing was scored or written) and run snakemake again",
            )


def parse_ranks(text: str, place: str, problems: Problems) -> tuple[int, ...] | None:
    """Return the numbers of prefixes, as written with blanks, commas or semicolons between them."""
    parts = [part for part in re.split(r"[\s,;]+", text) if part]
    odd = [part for part in parts if not (part.isascii() and part.isdigit())]
    if not odd:
        return tuple(map(int, parts))
    if CONVERTED.search(text):
        problems.add(
            place, f"{text!r} looks like a date, a time or a decimal that a spreadsheet made of numbers",
            "make the column text, and write the prefixes' numbers with blanks between them, as in 3 5 12",
        )  # fmt: skip
    else:
        quotes = ", without typographic quotes" if any(q in text for q in QUOTES) else ""
        what = f"{', '.join(map(repr, odd))} is no number of a prefix"
        problems.add(place, what, f"write numbers with blanks between them{quotes}")
    return None


def check_names(given: Iterable[Given], problems: Problems) -> None:
    """Note names that differ in case or blanks alone: labels of one person must not pass for those of two."""
    spelled: dict[str, Given] = {}
    said = set()
    for one in given:
        first = spelled.setdefault(" ".join(one.annotator.casefold().split()), one)
        if first.annotator != one.annotator and (one.annotator, one.file) not in said:
            said.add((one.annotator, one.file))
            what = f"{one.annotator!r} is {first.annotator!r} at {first.place}"
            problems.add(one.place, what, "spell one person's name in one way, and give two people two names")


@dataclass(frozen=True)
class Shown:
    """What was given out: how many prefixes each item shows, and the names that other samples could have."""

    prefixes: Mapping[str, int]
    identities: frozenset[str] | set[str]

    def stale(self, item: str) -> bool:
        """Say whether an item of this model is no longer asked for: other prefixes now, or another sample."""
        return item not in self.prefixes and item.partition("-")[0] in self.identities


def check(records: list[Record], shown: Shown, problems: Problems) -> tuple[list[Record], list[Record]]:
    """Return the records that hold for what is shown now, and the stale ones; note what breaks the rules."""
    kept, stale = [], []
    first: dict[tuple[str, str], Record] = {}
    seen: dict[tuple[str, str, str], Record] = {}
    for record in records:
        _check_annotator(record, problems)
        if shown.stale(record.item):
            stale.append(record)
        elif record.item not in shown.prefixes:
            problems.add(
                record.place, f"there is no item {record.item!r}",
                "take the sheet of this run, or put the file into the folder of its own run",
            )  # fmt: skip
            continue
        else:
            kept.append(record)
        before = first.setdefault((record.annotator, record.item), record)
        twin = seen.setdefault((record.annotator, record.item, record.pattern), record)
        if before.file != record.file or twin is not record:
            earlier = before if before.file != record.file else twin
            what = f"{record.annotator} annotated {record.item} before, at {earlier.place}"
            problems.add(record.place, what, "keep one of the two")
        elif before is not record and not (before.type and record.type):
            problems.add(
                record.place,
                f"{record.item} is said to have patterns and to have none",
                f"see also {before.place}; keep one",
            )
        if record.type:
            _check_pattern(record, shown.prefixes.get(record.item), problems)
    return kept, stale


def _check_annotator(record: Given, problems: Problems) -> None:
    if not record.annotator:
        problems.add(record.place, "nobody is named", "write your name into the column annotator")
    elif record.annotator.casefold() in (ANNOTATOR, PEOPLE):
        problems.add(record.place, f"{record.annotator!r} is no one's name", "take another name for the annotator")


def _check_pattern(record: Record, prefixes: int | None, problems: Problems) -> None:
    if record.type not in TYPES:
        problems.add(record.place, f"{record.type!r} is no type of pattern", _instead(record.type, TYPES))
    if not record.description:
        problems.add(record.place, "the pattern is not described", "say in words what the prefixes share")
    elif FORMULA.fullmatch(record.description):
        what = f"{record.description!r} is what a spreadsheet made of a description that it took for a formula"
        problems.add(record.place, what, "make the cell text, and write the description again")
    if not record.readable:
        return
    if outside := [r for r in record.ranks if r < 1 or (prefixes is not None and r > prefixes)]:
        most = "" if prefixes is None else f": they go from 1 to {prefixes}"
        hint = "; a spreadsheet may have put them together, or made a date of them" if max(outside) > 999 else ""
        what = f"there is no prefix {', '.join(map(str, outside))}{most}"
        problems.add(record.place, what, f"correct the numbers{hint}")
    if len(set(record.ranks)) < len(record.ranks):
        problems.add(record.place, "a prefix is listed twice", "list it once")
    if not outside and len(set(record.ranks)) < FEWEST:
        problems.add(
            record.place, f"a pattern in {len(set(record.ranks))} of the prefixes",
            f"one has to hold in at least {FEWEST}: tick the others that have it, or take the pattern out",
        )  # fmt: skip


def check_judgements(judged: list[Judgement], shown: Mapping[str, int], known: set[str], labels: Iterable[str],
                     problems: Problems) -> tuple[list[Judgement], list[Judgement]]:  # fmt: skip
    """Return the judgements of E14 that hold for what is shown now, and the stale ones; note what is wrong.

    ``known`` are the first parts of the names that any composition of this run's examples can have.
    """
    kept, stale = [], []
    seen: dict[tuple[str, str], Judgement] = {}
    for one in judged:
        _check_annotator(one, problems)
        if one.label not in labels:
            problems.add(one.place, f"{one.label!r} is no judgement", _instead(one.label, tuple(labels)))
        if (before := seen.setdefault((one.annotator, one.item), one)) is not one:
            problems.add(
                one.place, f"{one.annotator} judged {one.item} before, at {before.place}", "keep one of the two"
            )
        if one.item in shown:
            kept.append(one)
        elif one.item.partition("-")[0] in known:
            stale.append(one)
        else:
            problems.add(one.place, f"there is no item {one.item!r}", "take the sheet of this run")
    return kept, stale


def _instead(given: str, allowed: tuple[str, ...]) -> str:
    plain = given.strip(QUOTES + "\"' ").lower()
    near = difflib.get_close_matches(plain, allowed, 1, 0.5)
    if near and given.strip(QUOTES) != given:
        return f"write {near[0]}, without the typographic quotes that a word processor put there"
    return f"write {near[0]}" if near else f"write one of {', '.join(allowed)}"
