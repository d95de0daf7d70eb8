"""The error that a user can fix: what is wrong, where, and how to fix it."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class UserError(Exception):
    """Raised for bad input. The command line prints it without a traceback and exits with status 2."""

    def __init__(self, what: str, hint: str | None = None):
        super().__init__(what if hint is None else f"{what}\n  fix: {hint}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean …?)`` with the known name closest to a mistyped or shortened one; nothing if none is."""
    folded = {each.casefold(): each for each in known}
    typed = name.casefold()
    close = get_close_matches(typed, folded, n=1) or sorted(each for each in folded if len(typed) > 2 and typed in each)
    return f" (did you mean {' or '.join(folded[each] for each in close[:3])}?)" if close else ""


def with_extra(name: str) -> str:
    """Return how to install what only some users need: an extra of pyproject.toml."""
    if (Path(__file__).parents[1] / "project").is_dir():  # installed from a wheel
        return f"run pip install 'ff-memories[{name}]'"
    return f"run pip install -c workflow/envs/constraints.txt -e '.[{name}]'"


def rebuild_hint(*paths: str | Path) -> str:
    """Return how to restore workflow outputs that are missing or damaged."""
    if all(Path(path).exists() for path in paths):
        return "remove it and run the workflow again"
    return "run the workflow, or in a clone make pull to get the published run"
