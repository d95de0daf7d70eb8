"""Read and check what annotators wrote, and report all problems by file and row.

The format is CSV as the forms export it, in UTF-8, with one row per pattern or judgement. Tools of ``contrib/`` write
other formats as this one.
"""

import csv
import io
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

from ff_memories.annotate.distance import LABELS
from ff_memories.annotate.study import FEWEST
from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.base.text import counted
from ff_memories.tables.annotation import ANNOTATOR, MODEL, PEOPLE, SIMULATED, TYPES

PATTERNS = ("run", "annotator", "item", "pattern", "type", "description", "prefixes")
JUDGEMENTS = ("run", "annotator", "item", "label")
NOTES = (".md", ".txt")  # may lie beside the files
PREFIXES = (MODEL, SIMULATED)  # of names that are not people's

Row = tuple[str, dict[str, str]]  # its file and row number, for messages, and its cells by column


@dataclass(frozen=True)
class Annotation:
    """An annotator's answer on an item, and its file; ``place`` is file and row, for messages."""

    place: str
    file: str
    annotator: str
    item: str


@dataclass(frozen=True)
class Pattern(Annotation):
    """One pattern that an annotator found in an item; without a type, the statement that it has none."""

    pattern: str = ""
    type: str = ""
    description: str = ""
    ranks: tuple[int, ...] = ()  # of the prefixes with the pattern


@dataclass(frozen=True)
class Judgement(Annotation):
    """An annotator's judgement of one composition of E14."""

    label: str


class Problems(list[str]):
    """All problems with some files, collected first and then reported together."""

    def add(self, place: str, what: str, hint: str) -> None:
        self.append(f"{place}: {what}; {hint}")

    def refuse(self, hint: str) -> None:
        """Raise ``UserError`` with all problems by file and row, if there are any."""
        if self:
            number = counted(len(self), "problem", "problems")
            raise UserError("\n  ".join([f"{number} in the annotators' files", *self]), hint)


def read_all(paths: Iterable[str | Path], run: str, problems: Problems) -> tuple[list[Pattern], list[Judgement]]:
    """Return the patterns and judgements in one run's files; add the files' problems to ``problems``."""
    patterns: list[Pattern] = []
    judgements: list[Judgement] = []
    for path in sorted(map(Path, paths)):
        if path.suffix.lower() in NOTES:
            continue
        if path.suffix.lower() != ".csv":
            problems.add(
                str(path), "not an annotation file", "export CSV from the form; contrib/ converts other formats"
            )
            continue
        read = list(rows(path, problems))
        if foreign := next(((place, row["run"]) for place, row in read if row["run"] != run), None):
            place, other = foreign
            problems.add(place, f"labels for the run {other!r}", f"move the file to annotations/{other}/")
        elif read and "label" in read[0][1]:
            judgements += [
                Judgement(place, str(path), row["annotator"], row["item"], row["label"].lower()) for place, row in read
            ]
        else:
            patterns += [_pattern(place, path, row, problems) for place, row in read]
    check_names([*patterns, *judgements], problems)
    return patterns, judgements


def rows(path: str | Path, problems: Problems) -> Iterator[Row]:
    """Yield a file's rows; add what keeps it from being read to ``problems``."""
    try:
        require_file(path)
        reader = csv.reader(io.StringIO(Path(path).read_text(encoding="utf-8-sig"), newline=""), strict=True)
        header = [name.strip().lower() for name in next(reader, [])]
        columns = JUDGEMENTS if "label" in header else PATTERNS
        if lacking := [name for name in columns if name not in header]:
            problems.add(str(path), f"missing columns: {', '.join(lacking)}", "restore the form's header")
            return
        for cells in reader:
            row = f"{path}, row {reader.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                what = f"{len(cells)} cells, but the header has {len(header)}"
                problems.add(row, what, 'put text with commas in plain double quotes: "')
                continue
            yield row, {name: without_escape(value) for name, value in zip(header, cells, strict=True)}
    except csv.Error as error:
        problems.add(f"{path}, row {reader.line_num}", f"not readable as CSV ({error})", "export it again")
    except UnicodeDecodeError:
        problems.add(str(path), "not UTF-8", "export it again, or save it as CSV UTF-8")
    except (OSError, UserError) as error:
        problems.add(str(path), f"not readable ({getattr(error, 'strerror', None) or error})", "name existing files")


def without_escape(value: str) -> str:
    """Return a cell's text, without the apostrophe that keeps spreadsheets from reading it as a formula."""
    value = value.strip()
    return value[1:] if value.startswith("'") and value[1:].lstrip()[:1] in ("=", "+", "-", "@") else value


def _pattern(place: str, path: Path, row: dict[str, str], problems: Problems) -> Pattern:
    head = (place, str(path), row["annotator"], row["item"])
    kind, numbers = row["type"].lower(), row["prefixes"].split()
    if kind == "none":
        if numbers or row["description"]:
            problems.add(place, "a pattern of type none", "choose a type, or clear the row's other cells")
        return Pattern(*head)
    if odd := [number for number in numbers if not (number.isascii() and number.isdigit() and len(number) < 10)]:
        problems.add(place, f"{', '.join(map(repr, odd))} is not a prefix number", "write numbers such as 3 5 12")
    ranks = tuple(int(number) for number in numbers if number not in odd)
    return Pattern(*head, row["pattern"], kind or "(empty)", row["description"], ranks)


def check_names(answers: Iterable[Annotation], problems: Problems) -> None:
    """Report names that do not say who annotated, or that differ from another only in case, spaces or code points."""
    of_file: dict[tuple[str, str], Annotation] = {}
    for answer in answers:
        of_file.setdefault((answer.annotator, answer.file), answer)
    spelled: dict[str, Annotation] = {}
    for answer in of_file.values():
        first = spelled.setdefault(" ".join(normalize("NFKC", answer.annotator).casefold().split()), answer)
        if not answer.annotator:
            problems.add(answer.place, "the annotator's name is missing", "write your name in the column annotator")
        elif answer.annotator.casefold() in (ANNOTATOR, PEOPLE) or (
            answer.annotator.casefold().startswith(PREFIXES) and not answer.annotator.startswith(PREFIXES)
        ):
            hint = f"use another name; those of no person begin with {' or '.join(PREFIXES)} exactly"
            problems.add(answer.place, f"{answer.annotator!r} is a reserved name", hint)
        elif first.annotator != answer.annotator:
            what = f"{answer.annotator!r} is spelled {first.annotator!r} at {first.place}"
            problems.add(answer.place, what, "spell each person's name one way, and give two people different names")


def check(patterns: Sequence[Pattern], prefixes: Mapping[str, int], problems: Problems) -> list[Pattern]:
    """Return the patterns of shown items ({item: its number of prefixes}), and report bad ones.

    An item is not shown any more if its prefixes or the sample changed.
    """
    shown = [pattern for pattern in patterns if pattern.item in prefixes]
    of_item: dict[tuple[str, str], Pattern] = {}
    by_name: dict[tuple[str, str, str], Pattern] = {}
    for pattern in shown:
        first = of_item.setdefault((pattern.annotator, pattern.item), pattern)
        twin = by_name.setdefault((pattern.annotator, pattern.item, pattern.pattern), pattern)
        if first.file != pattern.file or twin is not pattern:
            earlier = first if first.file != pattern.file else twin
            what = f"{pattern.annotator} already annotated {pattern.item} at {earlier.place}"
            problems.add(pattern.place, what, "keep one of the two")
        elif first is not pattern and not (first.type and pattern.type):
            what = f'{pattern.item} has both patterns and "no pattern"'
            problems.add(pattern.place, what, f"see also {first.place}; keep one of the two")
        if pattern.type:
            _check_pattern(pattern, prefixes[pattern.item], problems)
    return shown


def _check_pattern(pattern: Pattern, prefixes: int, problems: Problems) -> None:
    ranks = set(pattern.ranks)
    if pattern.type not in TYPES:
        problems.add(pattern.place, f"{pattern.type!r} is not a type of pattern", f"write {' or '.join(TYPES)}")
    if not pattern.description:
        problems.add(pattern.place, "the pattern has no description", "describe in words what the prefixes share")
    if outside := sorted(rank for rank in ranks if not 1 <= rank <= prefixes):
        what = f"unknown prefix {', '.join(map(str, outside))}; prefixes go from 1 to {prefixes}"
        problems.add(pattern.place, what, "correct the numbers")
    elif len(ranks) < len(pattern.ranks):
        problems.add(pattern.place, "a prefix is listed twice", "list it once")
    elif len(ranks) < FEWEST:
        what = f"a pattern in only {len(ranks)} of the prefixes"
        hint = f"a pattern needs at least {FEWEST}: tick the other prefixes that have it, or remove the pattern"
        problems.add(pattern.place, what, hint)


def check_judgements(judged: Sequence[Judgement], items: Container[str], problems: Problems) -> list[Judgement]:
    """Return the judgements of E14 of shown items, and report bad ones."""
    shown = [judgement for judgement in judged if judgement.item in items]
    of_item: dict[tuple[str, str], Judgement] = {}
    for judgement in shown:
        first = of_item.setdefault((judgement.annotator, judgement.item), judgement)
        if judgement.label not in LABELS:
            problems.add(judgement.place, f"{judgement.label!r} is not a judgement", f"write {' or '.join(LABELS)}")
        if first is not judgement:
            what = f"{judgement.annotator} already judged {judgement.item} at {first.place}"
            problems.add(judgement.place, what, "keep one of the two")
    return shown
