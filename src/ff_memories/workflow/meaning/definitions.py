"""Take a module apart: its definitions, what each of them means, and which others it names.

A definition is a top-level function, class or constant. Its meaning is its syntax tree without what no run can see:
comments, docstrings, line breaks, the types of parameters and variables, and descriptions and defaults of config keys
(a job's digest has their values). The tree is written in a form of our own, because ``ast.dump`` differs between
versions of Python.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FILE = re.compile(r"[\w.-]+\.(?:conf|toml|j2|css|js|html)\b")  # a data file's name in a string
PURE = {"cache", "contextmanager", "dataclass", "no_grad", "property"}  # decorators without effect on anything else
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# fields of a syntax tree that no result depends on, or that are read with what is around a function
OMITTED = {"ctx", "decorator_list", "defaults", "kind", "kw_defaults", "returns", "type_comment"}
TYPED = OMITTED | {"annotation"}
UNSEEN = ("TYPE_CHECKING", "__name__ == '__main__'")  # conditions that do not hold where a step is imported
Chain = tuple[str, ...]  # a name and the attributes taken of it, such as ("measures", "KINDS")


@dataclass(frozen=True)
class Meaning:
    """What some code means.

    Attributes:
        digest: of its syntax tree.
        names: what it names outside of itself, each with the attributes taken of it.
        files: names of data files in its strings.
        words: its strings that may be names of rows.
        lines: its first and last line.
    """

    digest: str
    names: frozenset[Chain]
    files: frozenset[str]
    words: frozenset[str]
    lines: tuple[int, int]


@dataclass
class Module:
    """A module, taken apart.

    Attributes:
        definitions: what binds each name; a name that is bound twice has two.
        rows: {name: {key: its part}}, of dictionaries with literal keys and of classes with typed fields.
        effects: statements that do something else than define, when the module is imported.
        imports: {name: what it may stand for}, each as a dotted name. Imports inside functions count.
        loads: dotted names that importing this module imports.
    """

    definitions: dict[str, list[Meaning]] = field(default_factory=dict)
    rows: dict[str, dict[str, Meaning]] = field(default_factory=dict)
    effects: list[Meaning] = field(default_factory=list)
    imports: dict[str, set[str]] = field(default_factory=dict)
    loads: set[str] = field(default_factory=set)


@cache
def module(path: Path, has_keys: bool = False, has_types: bool = False, unread: frozenset[str] = frozenset()) -> Module:
    """Return a module, taken apart.

    Args:
        has_keys: the fields of its classes are keys of the config.
        has_types: the types of its functions say how the command line reads their arguments.
        unread: names of its classes' fields that no step reads.
    """
    out, tree = Module(), ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        for name, target in _imported(node):
            out.imports.setdefault(name, set()).add(target)
    for statement in _top(tree.body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            out.loads |= {target for _, target in _imported(statement)}
            continue
        meaning = _meaning([statement], "module", has_keys, has_types, unread)
        level = "class" if isinstance(statement, ast.ClassDef) else "module"
        rows = {key: _meaning([part], level, has_keys, unread=unread) for key, part in _rows(statement)}
        for name in _bound(statement):
            out.definitions.setdefault(name, []).append(meaning)
            if rows:
                out.rows[name] = rows
        if _acts(statement):
            out.effects.append(meaning)
    return out


def _top(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run at import, without docstrings and without what only type checkers read."""
    for statement in statements:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) in UNSEEN:
            yield from _top(statement.orelse)
        elif not _is_text(statement):
            yield statement


def _is_text(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _names(part: ast.AST) -> str | None:
    """Return the field that a part of a class declares, or the argument that one of a call gives."""
    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
        return part.target.id
    return part.arg if isinstance(part, ast.keyword) else None


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (name here, what it stands for) of an import of the package."""
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2


def _bound(statement: ast.stmt) -> list[str]:
    """Return the names that a top-level statement binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    return [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _acts(statement: ast.stmt) -> bool:
    """Return whether a top-level statement may do something else than bind names."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        named = (ast.unparse(held).partition("(")[0].rpartition(".")[2] for held in statement.decorator_list)
        return not PURE.issuperset(named)
    if isinstance(statement, ast.Assign):
        return any(not isinstance(n, ast.Name | ast.Tuple) for n in statement.targets)
    return not isinstance(statement, ast.AnnAssign)


def _rows(statement: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """Yield the parts of a dictionary by key, or of a class by typed field."""
    if isinstance(statement, ast.ClassDef):
        for part in statement.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                yield part.target.id, part
    elif isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in statement.value.keys]
        if all(isinstance(key, str) for key in keys):
            yield from ((str(key), value) for key, value in zip(keys, statement.value.values, strict=True))


def _stored(function: ast.AST) -> set[str]:
    """Return the names that are local to a function or a comprehension, without those that it imports."""
    own, outer = set[str](), set[str]()
    inner = [child for child in ast.iter_child_nodes(function) if child not in getattr(function, "decorator_list", [])]
    while inner:
        node = inner.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, COMPREHENSIONS):  # it has names of its own, except those of :=
            own |= {
                n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr) and isinstance(n.target, ast.Name)
            }
        elif not isinstance(node, ast.Lambda):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
            elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
                own.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                own.add(node.rest)
            elif isinstance(node, ast.arg):
                own.add(node.arg)
            elif isinstance(node, ast.Global):
                outer |= set(node.names)
            inner += ast.iter_child_nodes(node)
    return own - outer


def _meaning(
    nodes: list[Any], level: str, has_keys: bool, has_types: bool = False, unread: frozenset[str] = frozenset()
) -> Meaning:
    reader = _Reader(level, has_keys, has_types, unread)
    digest = hashlib.sha256(repr([reader.read(node) for node in nodes]).encode()).hexdigest()
    starts = [part.lineno for node in nodes for part in (node, *getattr(node, "decorator_list", []))]
    lines = min(starts), max(node.end_lineno for node in nodes)
    return Meaning(digest, frozenset(reader.names), frozenset(reader.files), frozenset(reader.words), lines)


class _Reader:
    """Write a syntax tree in a form that says what the code means; collect the names that it takes from elsewhere.

    Attributes:
        level: where the node that is read stands: in a module, a class or a function.
        has_keys: fields of classes are keys of the config.
        has_types: a function's types say how the command line reads its arguments.
        unread: fields of classes that no step reads.
        scopes: the local names of the functions around the node.
    """

    def __init__(self, level: str, has_keys: bool, has_types: bool, unread: frozenset[str]):
        self.level, self.has_keys, self.has_types, self.unread = level, has_keys, has_types, unread
        self.names, self.files, self.words, self.scopes = set[Chain](), set[str](), set[str](), list[set[str]]()

    def read(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.read(part) for part in node]
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self.files |= set(FILE.findall(node.value))
                self.words |= {node.value} if node.value.isidentifier() else set()
            return ascii(node.value)
        if isinstance(node, ast.Name):
            return self._name((node.id,)) if isinstance(node.ctx, ast.Load) else node.id
        if isinstance(node, ast.Attribute) and (chain := _chain(node)):
            return self._name(chain)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return self._function(node)
        if isinstance(node, ast.ClassDef):
            return self._at("class", node)
        if isinstance(node, ast.Global):
            self.names |= {(name,) for name in node.names}
        if isinstance(node, ast.AnnAssign) and self.level != "class":
            return self._fields(ast.Assign([node.target], node.value)) if node.value else ""
        if isinstance(node, COMPREHENSIONS):
            first = self.read(node.generators[0].iter)  # belongs to the function around it
            return first, self._at(self.level, node, _stored(node))
        return self._fields(node) if isinstance(node, ast.AST) else ascii(node)

    def _name(self, chain: Chain) -> Any:
        if not any(chain[0] in own for own in self.scopes):
            self.names.add(chain)
        return ".".join(chain)

    def _function(self, node: Any) -> Any:
        """Read a function; decorators and defaults belong to what is around it."""
        around = [getattr(node, "decorator_list", []), node.args.defaults, node.args.kw_defaults]
        types: list[Any] = []
        if self.has_types and self.level == "module":
            types = [
                self.read(arg.annotation) for arg in ast.walk(node.args) if isinstance(arg, ast.arg) and arg.annotation
            ]
        return [self.read(part) for part in around], types, self._at("function", node, _stored(node))

    def _at(self, level: str, node: ast.AST, own: set[str] | None = None) -> Any:
        before, self.level = self.level, level
        self.scopes += [] if own is None else [own]
        try:
            return self._fields(node)
        finally:
            self.level = before
            del self.scopes[len(self.scopes) - (own is not None) :]

    def _fields(self, node: ast.AST) -> Any:
        found: list[Any] = []
        left_out = TYPED
        if isinstance(node, ast.AnnAssign):
            left_out = OMITTED | ({"value"} if self.has_keys else set())
        for name in sorted(set(node._fields) - left_out):
            value = getattr(node, name, None)
            if isinstance(value, list) and name in ("body", "keywords"):
                value = [part for part in value if not _is_text(part) and _names(part) not in self.unread]
            if value is not None and value != []:
                found.append((name, self.read(value)))
        return type(node).__name__, found


def _chain(node: ast.expr) -> Chain:
    """Return a name and the attributes taken of it; nothing for attributes of another expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else ()
