"""The one error a user can hint: what is wrong, where, and how to put it right."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class UserError(Exception):
    """Raised for bad input. The command line prints it without a traceback and exits with status 2."""

    def __init__(self, what: str, hint: str | None = None):
        super().__init__(what if hint is None else f"{what}\n  fix: {hint}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean …?)`` with the known name that is most like a mistyped one, or nothing if none is."""
    close = get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def rebuild_hint(*paths: str | Path) -> str:
    """Say what mends files that the workflow makes: they are missing, or not what they should be."""
    if all(Path(path).exists() for path in paths):
        return "remove it and run snakemake again"
    return "run snakemake, or make pull for the published run"
