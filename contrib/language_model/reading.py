"""Read a language model's answers to the prompts: one text file per item, or JSON lines."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from contrib.language_model.prompts import EXAMPLES
from ff_memories.annotate.annotation_files import Pattern, Problems, check
from ff_memories.annotate.study import FEWEST
from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.tables.annotation import TYPES

NAME = re.compile(r"(?:\d+-)?(i[0-9a-f]{10}-[0-9a-f]{10})")
DASHES = r"-\u2010-\u2015\u2212"
PATTERN = re.compile(rf"[{DASHES}\s>*_`#.)|\d•●▪◦‣·+]*({'|'.join(TYPES)})[\s*_`]*\|(.*)", re.IGNORECASE)
LIKE_A_PATTERN = re.compile(rf"(?=.*\|.*\|).*({'|'.join(TYPES)})", re.IGNORECASE)
NONE = re.compile(r"[\W_]*(none|no pattern)[\W_]*", re.IGNORECASE)
RANGE = re.compile(rf"(?<=\d)(\s*)[{DASHES}]\1(?=\d)")
BETWEEN = re.compile(r"(?:[\s,;&]|\band\b)+", re.IGNORECASE)
NUMBERS = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?")


@dataclass
class Answer:
    """A model's answer to one item.

    Attributes:
        patterns: the lines with a pattern.
        none: the lines that say that there is none.
        unread: the number of lines with a pattern that cannot be read.
        echoed: the number of lines that repeat the prompt's example.
    """

    patterns: list[Pattern] = field(default_factory=list)
    none: list[Pattern] = field(default_factory=list)
    unread: int = 0
    echoed: int = 0

    @property
    def records(self) -> list[Pattern]:
        """What the answer says, by the rules for people."""
        return [*self.patterns, *self.none[:1]]


def read(path: Path, annotator: str, items: Mapping[str, int], problems: Problems) -> list[Answer]:
    """Return the answers in a folder, or in a file of JSON lines with ``item`` and ``answer``.

    A problem reports each faulty line, and each answer that has nothing to read or belongs to none of the ``items``.
    Lines that look neither like a pattern nor like ``none`` are passed over: models explain themselves.

    Raises:
        UserError: there are no answers.
    """
    found = list(_folder(path, problems) if path.is_dir() else _lines(path, problems))
    if not found and not problems:
        raise UserError(f"{path}: no answers", "write each answer to a file with its prompt's name")
    out: list[Answer] = []
    seen: set[str] = set()
    for place, item, text in found:
        if item in seen:
            problems.add(place, f"{item} is answered twice", "keep one of the two")
            continue
        seen.add(item)
        if item not in items:
            problems.add(place, f"unknown item {item!r}", "answer this run's prompts, or remove the answer")
            continue
        answer = _answer(place, Pattern(place, str(path), annotator, item), text, problems)
        if answer.records or answer.unread or answer.echoed:
            out.append(answer)
        else:
            problems.add(place, "neither a pattern nor none", "ask the model again, or leave the item out")
    return out


def _folder(path: Path, problems: Problems) -> Iterator[tuple[str, str, str]]:
    for file in sorted(path.iterdir()):
        if file.suffix != ".txt":
            if NAME.fullmatch(file.stem):
                problems.add(str(file), "not a .txt file", "give an answer the name of its prompt")
            continue
        if (name := NAME.fullmatch(file.stem)) is None:
            problems.add(str(file), "not named after an item", "give an answer the name of its prompt")
            continue
        require_file(file)
        try:
            yield str(file), name[1], file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            problems.add(str(file), "not UTF-8", "save the answer as UTF-8")


def _lines(path: Path, problems: Problems) -> Iterator[tuple[str, str, str]]:
    require_file(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file or folder", "give the folder or the JSON lines of answers") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8", "save the answers as UTF-8") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if lines and not any(line.lstrip().startswith("{") for _, line in lines):
        raise UserError(f"{path}: not JSON lines", "give a folder of answers, or JSON lines with item and answer")
    for number, line in lines:
        place = f"{path}, line {number}"
        try:
            held = foreign.json_of(line, place, Any, text=True)
        except UserError as error:
            problems.add(place, str(error).removeprefix(f"{place}: "), "correct the line")
            continue
        item, answer = (held.get("item"), held.get("answer")) if isinstance(held, dict) else (None, None)
        if isinstance(item, str) and isinstance(answer, str):
            yield place, item, answer
        else:
            problems.add(place, "not a JSON object with the texts item and answer", "correct the line")


def _answer(place: str, head: Pattern, text: str, problems: Problems) -> Answer:
    out = Answer()
    for number, line in enumerate(text.splitlines(), 1):
        at = f"{place}, row {number} of the answer"
        if NONE.fullmatch(line):
            out.none.append(replace(head, place=at))
        elif (found := PATTERN.match(line)) is None:
            if LIKE_A_PATTERN.match(line):
                problems.add(at, "looks like a pattern and is not one", "write: type | numbers | description")
                out.unread += 1
        elif "|" not in (rest := found[2].rstrip("| ") if line.lstrip().startswith("|") else found[2]):
            problems.add(at, "a pattern without numbers and description", "write: type | numbers | description")
            out.unread += 1
        else:
            numbers, said = (cell.strip() for cell in rest.split("|", 1))
            kind, said = found[1].lower(), said.rstrip("*_` ")
            if (ranks := _ranks(numbers)) is None:
                problems.add(at, f"cannot read the numbers {numbers!r}", "write them as in 1 4 7, or as in 3-9")
                out.unread += 1
            elif (kind, ranks, _plain(said)) in REPEATED:
                problems.add(at, "repeats the prompt's example", "ask the model again, or remove the line")
                out.echoed += 1
            else:
                here = replace(head, place=at, pattern=str(len(out.patterns) + 1))
                out.patterns.append(replace(here, type=kind, description=said, ranks=ranks))
    return out


def _ranks(text: str) -> tuple[int, ...] | None:
    """Return the numbers of prefixes, which may have ranges, brackets and `and` between them; ``None`` if not read."""
    plain = RANGE.sub("-", re.sub(r"[][(){}*`]", " ", text).strip())
    out: list[int] = []
    for part in BETWEEN.split(plain):
        if not part:
            continue
        if (found := NUMBERS.fullmatch(part)) is None or int(found[2] or found[1]) < int(found[1]):
            return None
        out += range(int(found[1]), int(found[2] or found[1]) + 1)
    return tuple(out) or None


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", "", text.casefold()).split())


def _example(line: str) -> tuple[str, tuple[int, ...] | None, str]:
    kind, numbers, said = line.split("|")
    return kind.strip(), _ranks(numbers), _plain(said)


REPEATED = frozenset(map(_example, EXAMPLES.splitlines()))


def mended(answers: list[Answer], items: Mapping[str, int]) -> tuple[list[Pattern], int]:
    """Return what the answers say without what breaks a rule of the guide, and how many lines that changed or dropped.

    A number that was not shown does not count, and a pattern that breaks a rule is dropped. An answer without a pattern
    left says ``none`` if it says so, or if its patterns were all in too few prefixes. If it claims any other pattern,
    it is left out: as ``none`` it would lower the model's rate of patterns seen in foils.
    """
    out: list[Pattern] = []
    changed = 0
    for answer in answers:
        changed += answer.unread + answer.echoed
        kept: list[Pattern] = []
        claimed = answer.unread > 0
        for record in answer.patterns:
            ranks = tuple(sorted({rank for rank in record.ranks if 1 <= rank <= items[record.item]}))
            own = replace(record, ranks=ranks, pattern=str(len(kept) + 1))
            check([own], items, faults := Problems())
            changed += len(ranks) != len(record.ranks) or bool(faults)
            if not faults:
                kept.append(own)
            else:
                claimed |= len(set(record.ranks)) >= FEWEST
        if kept:
            changed += len(answer.none)
        elif answer.records and not claimed:
            kept = [replace(answer.records[0], pattern="", type="", description="", ranks=())]
        out += kept
    return out, changed
