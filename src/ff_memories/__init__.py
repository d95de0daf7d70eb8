"""Transformer feed-forward layers as key-value memories: from a model and text to the paper's results."""

import importlib
from typing import Any

__all__ = ["load_model", "memory_coefficients", "trace", "trigger_examples", "value_predictions"]


def __getattr__(name: str) -> Any:
    """Import the public functions on first use, so importing the package stays fast."""
    if name in __all__:
        return getattr(importlib.import_module("ff_memories.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
