"""Find what a step can reach: definitions of the package, from its ``run`` on, and the data files that they name.

The package allows this: no name is made at run time but those of ``FOUND``, nothing is bound by ``*``, and attributes
are taken of modules by their names. Tests watch steps run and compare.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.workflow.meaning.definitions import FILE, Meaning, Module, module

PACKAGE = Path(__file__).parents[2]
DATA = (".conf", ".toml", ".j2", ".css", ".js", ".html")
KEYS = f"{PACKAGE.name}.config"
TABLES = f"{PACKAGE.name}.tables"
# what tables' declarations tell only those who compare, check or share tables: no step reads it, as a test checks
UNREAD = frozenset(
    {"about", "compared", "measured", "score", "tied", "open_rows", "of_baselines", "names_people", "quotes_text"}
)
# a folder with one module per figure, and what is found there at run time: what reads which name of every module (all
# names: the module is imported)
FIGURES = f"{PACKAGE.name}.figures.drawn"
FOUND = {f"{PACKAGE.name}.figures.registry:DRAWN": "FIGURE", f"{PACKAGE.name}.figures.draw:module": "*"}
# {"module:name", or a data file's path: the keys that a job uses}; absent: all. A package here is not used at all.
UsedRows = Mapping[str, frozenset[str]]


@dataclass
class Reached:
    """What a step can reach.

    Attributes:
        code: {"module:name", with "[key]" for a row: what it means}; effects of an import are named by their line.
        data: data files, by their path in the package.
        imports: (name in a module, what is imported by that name), of the package and of others.
        unknown: names that a module should have and has not; there are none.
    """

    code: dict[str, Meaning] = field(default_factory=dict)
    data: dict[str, Path] = field(default_factory=dict)
    imports: set[tuple[str, str]] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)


@cache
def modules() -> dict[str, Path]:
    """Return the package's modules by dotted name."""
    return {_dotted(path): path for path in PACKAGE.rglob("*.py")}


def _dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_of_config(name: str) -> bool:
    """Return whether a module has keys of the config."""
    return name == KEYS or name.startswith(f"{KEYS}.")


@cache
def _apart(name: str) -> Module:
    unread = UNREAD if name.startswith(TABLES) else frozenset[str]()
    return module(modules()[name], is_of_config(name), name.startswith(f"{PACKAGE.name}.steps."), unread)


def tables() -> dict[str, str]:
    """Return {table: the dictionary that declares it, as ``module:name``}."""
    every = [name for name in modules() if name.startswith(f"{TABLES}.")]
    return {key: f"{name}:TABLES" for name in every for key in _apart(name).rows.get("TABLES", ())}


def reached(step: str, rows: UsedRows) -> Reached:
    """Return what a step can reach.

    Args:
        step: the name of its module, such as ``trigger_shard``.
        rows: the rows that a job uses of what is keyed by name.

    Raises:
        UserError: there is no such step.
    """
    start = f"{PACKAGE.name}.steps.{step}"
    if start not in modules():
        raise UserError(f"{step}: no such step", "ff-memories step --help lists them")
    search = _Search(rows)
    search.name(start, "run")
    search.named()
    return search.found


def digest(step: str, rows: UsedRows) -> str:
    """Return one digest of what a step's code means (hexadecimal). Raises ``UserError`` if there is no such step."""
    return _digest(step, tuple(sorted(rows.items())))


@cache
def _digest(step: str, given: tuple[tuple[str, frozenset[str]], ...]) -> str:
    rows = dict(given)
    found = reached(step, rows)
    parts = sorted((name, meaning.digest) for name, meaning in found.code.items())
    parts += sorted((name, _content(path, rows.get(name))) for name, path in found.data.items())
    return hashlib.sha256(json.dumps([*parts, *sorted(found.imports)]).encode()).hexdigest()


def _content(path: Path, keys: frozenset[str] | None) -> str:
    """Return a data file's digest; of TOML, of the data without comments, and of some tables by name."""
    if path.suffix != ".toml":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    if keys is not None:
        data = {
            name: [row for row in value if keys & set(map(str, row.values()))] if isinstance(value, list) else value
            for name, value in data.items()
            if not isinstance(value, dict) or name in keys
        }
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


class _Search:
    def __init__(self, rows: UsedRows):
        self.rows, self.found = rows, Reached()
        self.loaded, self.read, self.words = set[str](), set[str](), set[str]()

    def name(self, at: str, name: str) -> None:
        """Follow a name of a module."""
        if self._is_unused(at):
            return
        self._load(at)
        label = f"{at}:{name}"
        if label in self.read:
            return
        self.read.add(label)
        if label in FOUND:
            self._figures(FOUND[label])
        apart, keys = _apart(at), self.rows.get(label)
        if name == "*":
            for every in apart.definitions:
                self.name(at, every)
        elif keys is not None and name in apart.rows:
            for key in sorted(keys & apart.rows[name].keys()):
                self._take(at, f"{label}[{key}]", apart.rows[name][key])
        else:
            for place, meaning in enumerate(apart.definitions.get(name, ())):
                self._take(at, f"{label}@{place}" if place else label, meaning)
            for target in apart.imports.get(name, ()):
                self._follow(target)
            if name not in apart.definitions and name not in apart.imports:
                self.found.unknown.add(label)

    def _figures(self, name: str) -> None:
        """Follow a name of the figures' modules, of those that the job draws."""
        keys = self.rows.get(f"{FIGURES}:*")
        for at in (f"{FIGURES}.{path.stem}" for path in sorted(modules()[FIGURES].parent.glob("[a-z]*.py"))):
            if keys is None or at.rpartition(".")[2] in keys:
                if name == "*":
                    self.name(at, name)
                else:  # read from the source, so nothing is imported
                    self._take(at, f"{at}:{name}", _apart(at).definitions[name][0])

    def _is_unused(self, name: str) -> bool:
        """Return whether a module is of a package that the job does not use."""
        return name in self.rows or name.rpartition(".")[0] in self.rows

    def _take(self, at: str, label: str, meaning: Meaning) -> None:
        """Take some code of a module, and what it names."""
        self.found.code[label] = meaning
        self.words |= (
            meaning.words if not is_of_config(at) else set()
        )  # some of the config's sections are called as tables
        for first, *rest in meaning.names:
            self._chain(at, first, rest)
        for file in meaning.files & _data().keys():
            self._data(file)

    def named(self) -> None:
        """Take the tables whose names are strings of the code, until these name no more."""
        labels = {key: label for key, label in tables().items() if label in self.read and label in self.rows}
        while todo := sorted(k for k in self.words & labels.keys() if f"{labels[k]}[{k}]" not in self.found.code):
            for key in todo:
                at, _, name = labels[key].partition(":")
                self._take(at, f"{labels[key]}[{key}]", _apart(at).rows[name][key])

    def _chain(self, at: str, first: str, rest: list[str]) -> None:
        apart = _apart(at)
        if first in apart.definitions:
            self.name(at, first)
        for target in apart.imports.get(first, ()):
            self.found.imports.add((f"{at}:{first}", target))
            self._follow(target, *rest)

    def _follow(self, target: str, *rest: str) -> None:
        """Follow a dotted name and the attributes taken of it, down to a definition or to all of a module."""
        known, parts = modules(), [*target.split("."), *rest]
        if parts[0] != PACKAGE.name:
            return
        depth = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in known)
        self.name(".".join(parts[:depth]), parts[depth] if depth < len(parts) else "*")

    def _load(self, at: str) -> None:
        """Import a module: take what that does besides defining, in it and in all that it imports."""
        waiting = [at]
        while waiting:
            name = waiting.pop()
            while name not in modules():  # a name of a module, or of another package
                name = name.rpartition(".")[0]
                if not name:
                    break
            if not name or name in self.loaded or self._is_unused(name):
                continue
            self.loaded.add(name)
            apart = _apart(name)
            for effect in apart.effects:
                self._take(name, f"{name}:effect {effect.digest[:8]}", effect)
            waiting += [name.rpartition(".")[0], *sorted(apart.loads)]
        for file in _unnamed().get(at.rpartition(".")[0], ()):
            self._data(file)

    def _data(self, file: str) -> None:
        for path in _data()[file]:
            label = path.relative_to(PACKAGE).as_posix()
            if label not in self.found.data:
                self.found.data[label] = path
                for other in _files_in(path) & _data().keys():
                    self._data(other)


@cache
def _data() -> dict[str, list[Path]]:
    """Return the package's data files by name."""
    out: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in DATA:
            out.setdefault(path.name, []).append(path)
    return out


@cache
def _files_in(path: Path) -> frozenset[str]:
    """Return the names of data files in a data file's text."""
    return frozenset(FILE.findall(path.read_text(encoding="utf-8"))) - {path.name}


@cache
def _unnamed() -> dict[str, list[str]]:
    """Return the data files that no code names, by their package: its modules may make up their names."""
    code = (one.files for name in modules() for own in _apart(name).definitions.values() for one in own)
    data = (_files_in(path) for own in _data().values() for path in own)
    named = frozenset[str]().union(*code, *data)
    out: dict[str, list[str]] = {}
    for path in (path for name, own in _data().items() if name not in named for path in own):
        package = next(folder for folder in path.parents if (folder / "__init__.py").is_file())
        out.setdefault(_dotted(package / "__init__.py"), []).append(path.name)
    return out
