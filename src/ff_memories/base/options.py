"""Numbers on the command line, checked as they are read: what a step cannot use never costs it a second."""

import argparse
import re
from collections.abc import Callable

from ff_memories.base.errors import UserError

LARGEST = 2**63 - 1  # what torch, numpy and polars hold


def whole(least: int = 1, most: int = LARGEST) -> Callable[[str], int]:
    """Return argparse's type of a whole number from ``least`` to ``most``."""

    def number(text: str) -> int:
        if not re.fullmatch("[0-9]{1,19}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text[:60]}: expected a whole number from {least} to {most}")
        return int(text)

    return number


threads = whole(most=1024)  # a library that is asked for a million of them dies without a word


def shard_of(text: str) -> tuple[int, int]:
    """Return (number from 1, of how many) for ``1-of-4``. Raises ``UserError`` for what is no shard."""
    number, _, shards = text.partition("-of-")
    if not (number.isdecimal() and shards.isdecimal() and 1 <= int(number) <= int(shards)):
        raise UserError(f"--shard {text}: no shard", "give one as in 1-of-4")
    return int(number), int(shards)
