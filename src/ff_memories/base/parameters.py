"""The types of a step's parameters: each defines an option on the command line and the value that a rule passes.

A step's work consists of units, such as batches or layers, which follow from its input and its config alone. A shard is
a run of consecutive units, so the number of shards changes no unit, hence no number.
"""

import argparse
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ff_memories.base.errors import UserError

Input = Path  # a file that the rule reads
Inputs = list[Path]  # files that the rule reads, at least one
AnyInputs = list[Path]  # files that the rule reads; there may be none
Output = Path  # a file or a folder that the rule writes
Outputs = list[Path]
EveryOutput = list[Path]  # all files that the rule writes
Wildcard = str  # a wildcard of the rule's paths
Param = str
Params = list[str]  # there may be none
Threads = int
Shard = tuple[int, int]  # (1, 4): the first of four, "1-of-4" as Snakemake's item of a scatter
WHOLE: Shard = (1, 1)
Unit = TypeVar("Unit")
LARGEST = 2**63 - 1  # what torch, numpy and polars hold


class Tables(dict[str, Path]):
    """Tables that the rule reads, {name: file}; files are named after their tables. There may be none."""

    def __missing__(self, name: str) -> Path:
        raise UserError(f"the table {name} is missing", f"add {name}.parquet to --tables")


@dataclass(frozen=True)
class Execution:
    """How to run the model. Results do not depend on it, beyond near-ties."""

    device: str = "auto"  # or cpu or cuda
    threads: int = os.cpu_count() or 1  # of the CPU
    batch_tokens: int = 16_384  # in one forward pass
    arithmetic: str = "fast"  # or portable: the same bits on every CPU with AVX2, on one thread; before torch is loaded


def shard_of(text: str) -> Shard:
    """Return (1, 4) for ``1-of-4``. Raises ``UserError`` for any other form."""
    number, _, shards = text.partition("-of-")
    if not (number.isdecimal() and shards.isdecimal() and 1 <= int(number) <= int(shards)):
        raise UserError(f"--shard {text}: not a shard", "name a shard in the form 1-of-4")
    return int(number), int(shards)


def share(units: Sequence[Unit], shard: Shard) -> Sequence[Unit]:
    """Return a shard's units, about as many as any other's; none if there are more shards than units."""
    number, shards = shard
    return units[(number - 1) * len(units) // shards : number * len(units) // shards]


def whole(least: int = 1, most: int = LARGEST) -> Callable[[str], int]:
    """Return an argparse type for whole numbers from ``least`` to ``most``."""

    def number(text: str) -> int:
        if not re.fullmatch("[0-9]{1,19}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text[:60]}: expected a whole number from {least} to {most}")
        return int(text)

    return number


def seconds(text: str) -> float:
    """Return the seconds of a time such as ``1h30m``, for argparse."""
    parts = re.findall(r"(\d+)([hms])", text)
    if not parts or "".join(map("".join, parts)) != text:
        raise argparse.ArgumentTypeError(f"{text}: expected a time, such as 20m or 1h30m")
    return float(sum(int(number) * {"h": 3600, "m": 60, "s": 1}[unit] for number, unit in parts))


def tokens(text: str) -> int | str:
    """Return the tokens of a forward pass, or ``auto``, for argparse."""
    return text if text == "auto" else whole()(text)


threads = whole(most=1024)  # some libraries crash silently at huge thread counts
