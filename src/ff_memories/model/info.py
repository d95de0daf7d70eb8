"""What the model step found out about a model (``info.json``), and whose results a run's are, wherever they are shown.

A run's scope, which ``steps.model`` decides for a fairseq model: ``paper``, the paper's own model and text;
``surrogate``, a stand-in of the same kind, or another text; ``model``, a model of `transformers`, which is neither: its
results say whether the same is seen there.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ff_memories.base import foreign
from ff_memories.base.errors import UserError, rebuild_hint

SCOPES = ("paper", "surrogate", "model")
ABOUT = {  # in the middle of a sentence
    "paper": "the paper's own model",
    "surrogate": "a surrogate: not the paper's model",
    "model": "not the paper's model: these results say whether the same is seen here, and nothing about the paper's "
    "numbers",
}
NOTICES = {  # beside a figure or table; the paper's own model needs none
    "paper": "",
    "surrogate": "Surrogate model: not the paper's.",
    "model": "Not the paper's model.",
}
MARKS = {  # in an image, or above a table in LaTeX
    "paper": "",
    "surrogate": "surrogate model, not the paper's",
    "model": "not the paper's model",
}
TITLES = {"paper": "", "surrogate": "Surrogate model: ", "model": "Not the paper's model: "}  # before a page's title
NEEDED = ("scope", "layers", "keys", "vocab", "adaptive_output", "final_norm", "max_positions")


def neurons(info: Mapping[str, Any]) -> int | None:
    """Return d_m where both signs of a coefficient are memories of their own, else ``None`` (``base.text``)."""
    return info["neurons"] if info.get("signs", 1) > 1 else None


def has_inactive(info: Mapping[str, Any]) -> bool:
    """Return whether a model's memories can be inactive: its coefficients are never below zero, and often exactly zero.

    So with ReLU. With other activation functions, or a gate, every memory adds something.
    """
    return bool(info["scope"] != "model" or info.get("inactive_memories"))


def quantised(told: Mapping[str, Any]) -> str | None:
    """Return what quantised weights are, for readers; ``None`` for weights that are not quantised.

    ``told``: what a converted model's folder or info says: ``types`` (numbers by type) and ``bits`` (of the layers').
    """
    bits = [n for n in told.get("bits", ()) if n < 16]
    if not bits:
        return None
    width = f"{bits[0]}-bit" if len(bits) == 1 else f"{bits[0]}- to {bits[-1]}-bit"
    types = sorted(told["types"], key=lambda name: -told["types"][name])  # info.json is in alphabetical order
    return f"{width} weights ({', '.join(types)}): the model that people run, not the one that was trained"


def read_info(path: str | Path) -> dict[str, Any]:
    """Read a ``info.json``. Raises ``UserError`` when it is missing, damaged or names no known scope."""
    info = foreign.read_json(path, dict[str, Any], rebuild_hint(path))
    if lacking := [key for key in NEEDED if key not in info]:
        raise UserError(f"{path}: lacks {', '.join(lacking)}", rebuild_hint(path))
    if info["scope"] not in SCOPES:
        raise UserError(f"{path}: scope is {info['scope']!r}, none of {', '.join(SCOPES)}")
    return info


def mark_latex(scope: str, columns: int) -> list[str]:
    """Return the line above a LaTeX table of so many columns that says whose results it shows, if any is needed."""
    if scope == "paper":
        return []
    mark = MARKS[scope].replace(",", ":")
    return [f"\\multicolumn{{{columns}}}{{l}}{{\\textbf{{{mark}}}}} \\\\"]
