"""Transformer feed-forward layers as key-value memories: from a model and text to the paper's results."""

import importlib
import sys
from typing import Any

__all__ = ["load_model", "memory_coefficients", "trace", "trigger_examples", "value_predictions"]
MOVED = {  # packages of versions before 0.1
    **{"claims": "judge", "memories": "paper", "patterns": "annotate", "annotate.automatic": "annotate"},
    **{"audit.recompute": "audit", "audit.references": "audit", "workflow.runs": "workflow"},
    **{"commands.explore": "commands", "commands.record": "commands"},
    **{"workflow.snakefile": "base.files", "inputs.docstrings": "base.files"},
    **{f"workflow.{name}": "plan" for name in ("cards", "costs", "planning", "speed")},
    **{f"inputs.{name}": "inputs" for name in ("fetching", "models", "texts")},
}


def __getattr__(name: str) -> Any:
    """Import the public functions on first use, so importing the package stays fast."""
    if name in __all__:
        return getattr(importlib.import_module("ff_memories.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Moved:
    """Say where the modules of a package went, to who imports them by their old names."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if new := MOVED.get(name.removeprefix(f"{__name__}.")):
            raise ModuleNotFoundError(f"{name} went: look in {__name__}.{new}", name=name)


sys.meta_path.append(_Moved)  # asked last, for modules that nobody finds
