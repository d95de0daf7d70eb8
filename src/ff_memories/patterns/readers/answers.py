"""Read a language model's answers to ``patterns.forms.prompts``: one text file per item, or JSON lines."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ff_memories.base.annotators import TYPES
from ff_memories.base.errors import UserError
from ff_memories.patterns.readers.records import Problems, Record, parse_ranks
from ff_memories.patterns.sample import FEWEST

NAME = re.compile(r"(?:\d+-)?(i[0-9a-f]{10}-[0-9a-f]{10})")
PATTERN = re.compile(rf"[\s>*_`#.)\d-]*({'|'.join(TYPES)})[\s*_`]*\|(.*)", re.IGNORECASE)
NONE = re.compile(r"[\W_]*(none|no pattern)[\W_]*", re.IGNORECASE)


def read(path: Path, annotator: str, problems: Problems) -> list[Record]:
    """Return the records in a folder of answers, or in a file of JSON lines with ``item`` and ``answer``.

    Lines of an answer that are no pattern and not ``none`` are passed over: models explain themselves.

    Raises:
        UserError: there are no answers.
    """
    found = list(_folder(path, problems) if path.is_dir() else _lines(path, problems))
    if not found and not problems.found:
        raise UserError(f"{path}: no answers", "write each answer to a file with its prompt's name")
    out: list[Record] = []
    seen: set[str] = set()
    for place, item, answer in found:
        if item in seen:
            problems.add(place, f"{item} is answered twice", "keep one of the two")
            continue
        seen.add(item)
        out += _records(place, str(path), annotator, item, answer, problems)
    return out


def _folder(path: Path, problems: Problems) -> Iterator[tuple[str, str, str]]:
    for file in sorted(path.glob("*.txt")):
        if (name := NAME.fullmatch(file.stem)) is None:
            problems.add(str(file), "not named after an item", "give an answer the name of its prompt")
            continue
        try:
            yield str(file), name[1], file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            problems.add(str(file), "not UTF-8", "save the answer as UTF-8")


def _lines(path: Path, problems: Problems) -> Iterator[tuple[str, str, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file or folder", "give the folder or the JSON lines of answers") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8", "save the answers as UTF-8") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            held = json.loads(line)
            item, answer = held["item"], held["answer"]
            if not isinstance(item, str) or not isinstance(answer, str):
                raise TypeError("item and answer are text")
            yield place, item, answer
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            problems.add(place, f"not a JSON object with item and answer ({error})", "correct the line")


def _records(place: str, file: str, annotator: str, item: str, answer: str, problems: Problems) -> list[Record]:
    out: list[Record] = []
    none = False
    for number, line in enumerate(answer.splitlines(), 1):
        none |= NONE.fullmatch(line) is not None
        if (found := PATTERN.match(line)) is None:
            continue
        at, cells = f"{place}, row {number} of the answer", [cell.strip() for cell in found[2].split("|", 1)]
        if len(cells) < 2:
            problems.add(at, "a pattern without numbers and description", "write: type | numbers | description")
            continue
        ranks = parse_ranks(cells[0], at, problems)
        text = cells[1].rstrip("*_` ")
        out.append(
            Record(at, file, annotator, item, str(len(out) + 1), found[1].lower(), text, ranks or (), ranks is not None)
        )
    if out or none:
        return [*out, *([Record(place, file, annotator, item)] if none else [])]
    if not any(said.startswith(place) for said in problems.found):
        problems.add(place, "neither a pattern nor none", "ask the model again, or leave the item out")
    return []


def mended(records: list[Record], prefixes: dict[str, int]) -> tuple[list[Record], int]:
    """Return records that break no rule of the guide, and how many were changed or dropped.

    A prefix that was not shown does not count; a pattern in too few prefixes or without a description is no pattern;
    ``none`` beside a pattern is passed over; an item whose patterns are all dropped has none.
    """
    kept: dict[str, list[Record]] = {}
    changed = 0
    for record in records:
        own = kept.setdefault(record.item, [])
        if not record.type:
            continue
        most = prefixes.get(record.item, 0)
        ranks = tuple(sorted({rank for rank in record.ranks if 1 <= rank <= most}))
        changed += ranks != tuple(sorted(record.ranks))
        if len(ranks) >= FEWEST and record.description and record.readable:
            own.append(replace(record, ranks=ranks, pattern=str(len(own) + 1)))
        else:
            changed += 1
    first = {record.item: record for record in reversed(records)}
    for item, own in kept.items():
        if not own:
            own.append(Record(first[item].place, first[item].file, first[item].annotator, item))
    return [record for own in kept.values() for record in own], changed
