"""Parse numbers on the command line, so a bad one stops the command before it loads anything."""

import argparse
import re
from collections.abc import Callable

LARGEST = 2**63 - 1  # what torch, numpy and polars hold


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
