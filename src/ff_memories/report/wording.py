"""Small pieces of sentences: counted things, lists, a capital at the start and a full stop at the end."""

from collections.abc import Sequence


def counted(n: int, one: str, many: str) -> str:
    """Return a number of things with the word for one or for many."""
    return f"{n:,} {one if n == 1 else many}"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Return ``a, b and c``."""
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def sentence(text: str) -> str:
    """Return text as a sentence."""
    return f"{text[0].upper()}{text[1:]}."
