"""Format pieces of sentences: counted things, lists, capitals and full stops."""

from collections.abc import Sequence


def counted(n: int, one: str, many: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{n:,} {one if n == 1 else many}"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Return ``a, b and c``."""
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def sentence(text: str) -> str:
    """Return text with a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}."
