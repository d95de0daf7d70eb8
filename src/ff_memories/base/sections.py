"""Collect what the paper's sections declare: general machinery names a pattern, so it imports no section itself.

modules("ff_memories.paper.*.NAME")         # the modules NAME of all sections
declared("ff_memories.paper.*.NAME.toml")   # what the files NAME.toml of all sections say
"""

import tomllib
from functools import cache
from importlib import import_module
from importlib.resources import files
from types import ModuleType
from typing import Any

SECTIONS = ("keys", "values", "layers", "beyond")  # of the paper, in its order, and beyond it


@cache
def modules(pattern: str) -> dict[str, ModuleType]:
    """Return {section: its module that a dotted name with ``*`` for the section names}."""
    return {section: import_module(pattern.replace("*", section)) for section in SECTIONS}


@cache
def declared(pattern: str) -> dict[str, dict[str, Any]]:
    """Return {section: what its TOML file says that a dotted name with ``*`` for the section names}."""
    package, _, name = pattern.removesuffix(".toml").rpartition(".")
    read = {section: files(package.replace("*", section)).joinpath(f"{name}.toml") for section in SECTIONS}
    return {section: tomllib.loads(file.read_text(encoding="utf-8")) for section, file in read.items()}
