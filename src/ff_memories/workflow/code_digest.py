"""What the code of a step is: a digest of the modules that it imports and of the data files that these read.

Docstrings, comments, help texts and line breaks change no digest. The config's modules are left out, as a job's
``params`` have its values, and so are the tables' declarations, ``TABLES``: ``params`` have those that the job reads
and writes. An edited line makes due every step that imports its module, so what two steps share belongs into a module
of its own.
"""

import ast
import fnmatch
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from ff_memories import declaration
from ff_memories.base.files import home

PACKAGE = Path(__file__).parents[1]
CONFIG = "ff_memories.config"  # its modules' content is in `params`
TABLES = re.compile(r"ff_memories\.(tables|paper\.\w+\.tables)(\.|$)")  # likewise the declarations of these
DATA = {".conf", ".toml", ".j2", ".css", ".js", ".html"}
WORDS = frozenset({"description", "help", "hint"})  # arguments that say something to a reader, in calls of:
READ = {"Column", "Field", "Schema", "UserError", "add_argument"}
# arguments of a table's declaration that no step reads
OF_READERS = frozenset(
    {"about", "compared", "measured", "names_people", "of_baselines", "open_rows", "quotes_text", "score", "tied"}
)
UNSEEN = {"ctx", "kind", "type_comment", "type_params"}  # fields of a syntax tree that mean nothing here


@cache
def digest(step: str) -> str:
    """Return the digest of a step's code (hexadecimal)."""
    code, waiting = dict[str, str](), [_name(PACKAGE / declaration.module(step).relative_to(declaration.PACKAGE))]
    while waiting:
        if (name := waiting.pop()) not in code and not f"{name}.".startswith(f"{CONFIG}."):
            code[name], imported = _module(name)
            waiting += imported
    data = {file: content for name in code for file, content in _data(_modules()[name])}
    return _digest(sorted((code | data).items()))


@cache
def declarations() -> dict[str, str]:
    """Return {table: a digest of its declaration}, without what steps do not read of it."""
    trees = (ast.parse(path.read_bytes()) for name, path in _modules().items() if TABLES.match(name))
    rows = (row for tree in trees for node in tree.body for row in _rows(node) or ())
    return {name: _digest(_tree(row, WORDS | OF_READERS)) for name, row in rows}


@cache
def _modules() -> dict[str, Path]:
    """Return the package's modules by dotted name."""
    return {_name(path): path for path in PACKAGE.rglob("*.py")}


def _name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


@cache
def _module(name: str) -> tuple[str, list[str]]:
    """Return a module's digest, and the modules that it imports, wherever in it, or all of a package that it names."""
    tree, named = ast.parse(_modules()[name].read_bytes()), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("ff_memories."):
            package = node.value.rstrip(".")
            named |= set(fnmatch.filter(_modules(), package)) if "*" in package else set()
            if "." in package:
                named |= {module for module in _modules() if module.startswith(f"{package}.")}
    if TABLES.match(name):  # constants and shared columns: declarations are in `params`
        plain = (node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom))
        tree.body = [node for node in plain if _rows(node) is None]
    return _digest(_tree(tree)), sorted(named & _modules().keys())


@cache
def _data(module: Path) -> list[tuple[str, str]]:
    """Return the names and digests of a module's data files: of its name, of its package's folders, or named in it."""
    inside = [path for path in sorted(module.parent.rglob("*")) if path.suffix in DATA]
    package = [f for f in inside if next(p for p in f.parents if (p / "__init__.py").is_file()) == module.parent]
    beside = {file: file.with_suffix(".py") for file in package}
    read = {file for file, named in beside.items() if named == module or not named.exists()}
    for pattern in re.findall(r'"ff_memories\.([\w.*]+)\.toml"', module.read_text(encoding="utf-8")):
        read |= set(PACKAGE.glob(f"{pattern.replace('.', '/')}.toml"))
    names = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(read)}
    names |= {name: home() / name for name in scripts(module)}
    return [(name, hashlib.sha256(path.read_bytes()).hexdigest()) for name, path in names.items()]


def scripts(*modules: Path) -> list[str]:
    """Return the scripts of ``data/`` that modules call; without any, all modules."""
    texts = (path.read_text(encoding="utf-8") for path in modules or _modules().values())
    return sorted({f"data/{name}.py" for text in texts for name in re.findall(r'script\("(\w+)"\)', text)})


def _tree(node: Any, without: frozenset[str] = WORDS) -> Any:
    """Return a syntax tree in a form that no version of Python changes, without docstrings and some arguments."""
    if isinstance(node, list):
        docstrings = [part for part in node if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)]
        return [_tree(part, without) for part in node if part not in docstrings]
    if not isinstance(node, ast.AST):
        return ascii(node)
    fields = {name: value for name, value in ast.iter_fields(node) if name not in UNSEEN}
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in READ:
        fields["keywords"] = [given for given in node.keywords if given.arg not in without]
    return type(node).__name__, [(name, _tree(value, without)) for name, value in fields.items()]


def _rows(node: ast.stmt) -> list[tuple[str, ast.expr]] | None:
    """Return the names and declarations of the tables that a statement declares; ``None`` for another statement."""
    match node:
        case ast.Assign(targets=[ast.Name(id="TABLES")], value=ast.Dict(keys=keys, values=rows)):
            return [(ast.literal_eval(key), row) for key, row in zip(keys, rows, strict=True) if key]
    return None


def _digest(tree: Any) -> str:
    return hashlib.sha256(repr(tree).encode()).hexdigest()
