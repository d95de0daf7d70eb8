"""Numbers on the command line, checked as they are read: what a step cannot use never costs it a second."""

import argparse
import re
from collections.abc import Callable

LARGEST = 2**63 - 1  # what torch, numpy and polars hold


def whole(least: int = 1, most: int = LARGEST) -> Callable[[str], int]:
    """Return argparse's type of a whole number from ``least`` to ``most``."""

    def number(text: str) -> int:
        if not re.fullmatch("[0-9]{1,19}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text[:60]}: expected a whole number from {least} to {most}")
        return int(text)

    return number


threads = whole(most=1024)  # a library that is asked for a million of them dies without a word
