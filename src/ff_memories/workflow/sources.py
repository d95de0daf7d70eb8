"""Which source files determine a step: its module and all of the package that it imports, with their data.

Snakemake compares a digest of them with its records, and dvc.yaml names them as dependencies.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
DATA = (".toml", ".j2", ".css", ".js", ".html")


def _module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _modules() -> dict[str, Path]:
    return {_module(path): path for path in PACKAGE.rglob("*.py")}


@cache
def _imports(path: Path) -> tuple[str, ...]:
    """Return the package's own modules that a file imports, wherever in it."""
    known, names = _modules(), []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
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
    for directory in {file.parent for file in files if file.name == "__init__.py" and file.parent != PACKAGE}:
        files |= set(_data(directory))
    return tuple(sorted(files))


def _data(directory: Path) -> Iterator[Path]:
    """Yield the data files of a package, without those of the packages in it."""
    for path in directory.iterdir():
        if path.is_dir() and not (path / "__init__.py").exists():
            yield from _data(path)
        elif path.suffix in DATA:
            yield path


def sources(step: str) -> list[str]:
    """Return the files of the package that determine a step: its module and all it imports, with their data."""
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
