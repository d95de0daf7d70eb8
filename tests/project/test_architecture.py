"""The house rules that a reader relies on: who may import whom, and which library is known where."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from running import ROOT

SOURCES = ROOT / "src" / "ff_memories"
# from below: each room imports only from those before it, and from within itself
LAYERS = [
    "base", "schema", "config", "tables", "declaration", "corpus", "model", "inputs", "annotate", "judge", "figures",
    "paper", "gallery", "report", "api", "workflow", "plan", "atlas", "audit", "steps", "commands", "cli",
]  # fmt: skip
SECTIONS = ("keys", "values", "layers", "beyond")  # of the paper, likewise
KNOWN = {  # who may import a library: the others need neither its time nor its habits
    "torch": "annotate api audit gallery inputs model paper plan",
    "altair": "atlas figures paper",
    "snakemake": "workflow",
    "requests": "inputs",
    "tokenizers": "corpus",
    "transformers": "inputs model",
    "huggingface_hub": "inputs",
    "jinja2": "base report",
}


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the dotted names that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


@cache
def modules() -> dict[str, Path]:
    """Return the package's modules by their names within it: ``model.checkpoint``."""
    name = lambda path: ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
    return {name(path): path for path in SOURCES.rglob("*.py") if path.parent != SOURCES or path.stem != "__init__"}


def inner(path: Path) -> Iterator[str]:
    """Yield the package's own modules that a file imports."""
    for name in imports(path):
        own = name.removeprefix("ff_memories.")
        while own != name and own:
            if own in modules():
                yield own
                break
            own = own.rpartition(".")[0]


def room(module: str) -> int:
    """Return how high a module's room stands. Raises ``ValueError`` for one without a place in ``LAYERS``."""
    of_section = {"audit": "audit", "costs": "plan"} if module.startswith("paper.") else {}  # which no step may read
    return LAYERS.index(of_section.get(module.rpartition(".")[2], module.split(".")[0]))


def test_a_room_imports_only_from_those_below():
    assert not [f"{m} imports {o}" for m, path in modules().items() for o in inner(path) if room(o) > room(m)]


def test_a_section_imports_only_from_those_before_it():
    part = lambda module: SECTIONS.index(module.split(".")[1]) if module.count(".") > 1 else len(SECTIONS)
    paper = {m: path for m, path in modules().items() if m.startswith("paper.")}
    assert not [f"{m} imports {o}" for m, p in paper.items() for o in inner(p) if o in paper and part(o) > part(m)]


def test_no_modules_import_each_other():
    TopologicalSorter({module: set(inner(path)) - {module} for module, path in modules().items()}).prepare()


@pytest.mark.parametrize("library", KNOWN)
def test_a_library_is_known_where_it_is_needed(library):
    users = {module for module, path in modules().items() if any(n.split(".")[0] == library for n in imports(path))}
    allowed = KNOWN[library].split()
    assert users, "nobody needs it"
    assert not [module for module in users if module.split(".")[0] not in allowed]
    assert {module.split(".")[0] for module in users} == set(allowed), "KNOWN lists more than use it"
