"""Refuse files with problems in a command's own words: it differs from a run in what to do next."""

import re

from ff_memories.base.errors import UserError
from ff_memories.patterns.readers.records import Problems


def refuse(problems: Problems, where: str, hint: str, most: int | None = None) -> None:
    """Raise ``UserError`` with the first ``most`` problems by file and row, if there are any, and what to do."""
    if not problems.found:
        return
    number = len(problems.found)
    shown = [*sorted(problems.found, key=_by_number)[:most], *(["..."] if most is not None and number > most else [])]
    raise UserError("\n  ".join([f"{number} problem{'s' * (number > 1)} in {where}", *shown]), hint)


def _by_number(said: str) -> list[str | int]:
    return [int(text) if i % 2 else text for i, text in enumerate(re.split("([0-9]+)", said))]
