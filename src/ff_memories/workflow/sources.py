"""Find the source files that determine a step: its module, all modules of the package it imports, their data files.

Snakemake compares their digest with its records, and dvc.yaml lists them as dependencies.
"""

import ast
import hashlib
import re
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
DATA = (".conf", ".toml", ".j2", ".css", ".js", ".html")
IMPORT = re.compile(
    r"^[ \t]*(?:from (ff_memories[\w.]*) import (\([^)]*\)|.*)|import (ff_memories[\w.]*))", re.MULTILINE
)
RENAMED = re.compile(r" as \w+|#.*")
NAME = re.compile(r"[\w.-]+\.(?:conf|toml|j2|css|js|html)\b")


def _module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _modules() -> dict[str, Path]:
    return {_module(path): path for path in PACKAGE.rglob("*.py")}


@cache
def _imports(path: Path) -> tuple[str, ...]:
    """Return the package's modules that a file imports, anywhere in the file.

    A regular expression finds the statements, because parsing the whole package takes most of a second at every start.
    """
    known, names = _modules(), []
    for module, imported, plain in IMPORT.findall(path.read_text(encoding="utf-8")):
        names.append(module or plain)
        names += [f"{module}.{name}" for name in re.findall(r"\w+", RENAMED.sub("", imported))]
    return tuple(name for name in names if name in known)


@cache
def _sources(step: str) -> tuple[Path, ...]:
    known = _modules()
    waiting, found = [f"ff_memories.steps.{step}"], set()
    while waiting:
        name = waiting.pop()
        if name in found or name not in known:
            continue
        found.add(name)
        waiting += _imports(known[name])
        waiting.append(name.rpartition(".")[0])
    files = {known[name] for name in found}
    return tuple(sorted({file for file in files if _does_something(file)} | _named(files)))


def _does_something(file: Path) -> bool:
    """Return whether a file has code; an ``__init__.py`` with only a docstring has none."""
    return file.name != "__init__.py" or any(
        not isinstance(node, ast.Expr) for node in ast.parse(file.read_text(encoding="utf-8")).body
    )


def _named(files: set[Path]) -> set[Path]:
    """Return the data files that modules read: files in their packages that they name, and files that those name.

    A data file that no module names also counts, because a module may read its whole folder or build its name.
    """
    packages = {file.parent for file in files if file.name == "__init__.py"} - {PACKAGE}
    held = {path for package in packages for path in _data(package)}
    read = {path for path in held if path.name not in _all_names()}
    waiting = [*files, *read]
    while waiting:
        names = _names(waiting.pop())
        new = {path for path in held - read if path.name in names}
        read |= new
        waiting += new
    return read


@cache
def _names(path: Path) -> frozenset[str]:
    """Return the names of data files in a file's text, except its own."""
    return frozenset(NAME.findall(path.read_text(encoding="utf-8"))) - {path.name}


@cache
def _all_names() -> frozenset[str]:
    return frozenset[str]().union(*(_names(path) for path in PACKAGE.rglob("*") if path.suffix in (".py", *DATA)))


@cache
def _data(directory: Path) -> tuple[Path, ...]:
    """Return the data files of a package, without those of its subpackages."""
    found: list[Path] = []
    for path in directory.iterdir():
        if path.is_dir() and not (path / "__init__.py").exists():
            found += _data(path)
        elif path.suffix in DATA:
            found.append(path)
    return tuple(found)


def sources(step: str) -> list[str]:
    """Return the paths of the source files that determine a step."""
    root = PACKAGE.parent.parent
    return [path.relative_to(root).as_posix() for path in _sources(step)]


@cache
def _digest(files: tuple[str, ...]) -> str:
    whole = hashlib.sha256()
    for file in files:
        whole.update(file.encode() + b"\0" + (PACKAGE.parent.parent / file).read_bytes())
    return whole.hexdigest()


def digest(files: list[str]) -> str:
    """Return the SHA-256 of source files and their names."""
    return _digest(tuple(files))
