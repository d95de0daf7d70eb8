"""Mutation testing: change one operator or number of the science at a time, and see whether a test notices.

``python -m campaigns.mutation map`` runs the tests once, an hour or so, and keeps which of them run which function;
name test files to do it for those alone. ``python -m campaigns.mutation claims --sample 100`` then draws mutants of a
part at random and runs, in a copy of the project and in a fork that has everything but the package imported, the
tests that run the changed function, quick ones first, until one fails; what no test runs survives at once. It writes
docs/data/faults/mutation-claims-1.json. ``--again`` tries those once more that survived, and notes which of them are
noticed by now.
"""

import argparse
import ast
import contextlib
import copy
import importlib
import json
import os
import pkgutil
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from campaigns.covering import Covering, functions

ROOT = Path(__file__).parent.parent
PACKAGE = Path("src/ff_memories")
PARTS = ["memories", "claims", "patterns"]
MAP = ROOT / "results" / "mutation-map.json"
QUICK = 0.5  # such seconds; a test that takes less, what it needs included, runs before all others
BUDGET = 20  # seconds of processor time, as the map has it, that tests of one mutant may take
LATE = 20  # times as long by the clock: they don't end

SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.FloorDiv, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def _code(tree: ast.AST) -> Iterator[Any]:
    """Yield the nodes that run: no annotations, no docstrings, no imports."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            children = value if isinstance(value, list) else [value]
            for child in children:
                docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
                if isinstance(child, ast.AST) and not docstring and not isinstance(child, ast.Import | ast.ImportFrom):
                    waiting.append(child)


def _changes(node: ast.AST) -> Iterator[tuple[str, object, object]]:
    """Yield (field, new value, place in the field) of a node's mutations."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            if type(operator) in SWAPS:
                yield "ops", SWAPS[type(operator)](), place
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
        yield "op", SWAPS[type(node.op)](), None
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "value", not node.value, None
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield "value", node.value + 1, None
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "op", ast.UAdd(), None


def mutants(path: Path) -> list[tuple[int, str, str, str]]:
    """Return (line, statement before, statement after, the whole file after) of every mutant of a file."""
    tree, out = ast.parse(path.read_text(encoding="utf-8")), []
    for number, node in enumerate(list(_code(tree))):
        for field, new, place in _changes(node):
            changed = copy.deepcopy(tree)
            target = list(_code(changed))[number]
            before = ast.unparse(target)
            if place is None:
                setattr(target, field, new)
            else:
                getattr(target, field)[place] = new
            if isinstance(target, ast.UnaryOp) and isinstance(target.op, ast.UAdd):
                target.op, target.operand = ast.Not(), ast.UnaryOp(ast.Not(), target.operand)
            out.append((node.lineno, before, ast.unparse(target), ast.unparse(changed) + "\n"))
    return out


def copied() -> Path:
    """Return a copy of the project as it is checked out, without artefacts."""
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True, capture_output=True,
                            check=True).stdout  # fmt: skip
    for name in filter(None, listed.split("\n")):
        if not name.startswith(("artefacts/", "data/")) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def order(known: dict, file: str, line: int) -> dict[str, int]:
    """Return {test: place} of those that run the function a line is in, or any of its file where it is in none."""
    inside = [name for first, _, last, name in functions(ast.parse((ROOT / PACKAGE / file).read_text(encoding="utf-8")))
              if first <= line <= last][-1:]  # fmt: skip
    hit = {context for context, ran in known["runs"].get(file, {}).items() if not inside or inside[0] in ran}
    tests = {t: (own, shared) for t, (own, shared) in known["tests"].items() if hit & {t, *shared}}
    cost = {t: own + sum(known["shared"][name] for name in shared) for t, (own, shared) in tests.items()}
    slow, whole = [t for t in tests if cost[t] >= QUICK], {}  # slow tests go by files, which share fixtures
    for file in set(map(_file, slow)):
        here = [tests[t] for t in slow if _file(t) == file]
        fixtures = {name for _, shared in here for name in shared}
        whole[file] = sum(own for own, _ in here) + sum(known["shared"][name] for name in fixtures)
    rank = lambda t: (0, cost[t], "") if cost[t] < QUICK else (1, whole[_file(t)], _file(t))
    out, spent, paid = {}, 0.0, set()
    for test in sorted(tests, key=rank):
        own, shared = tests[test]
        spent += own + sum(known["shared"][name] for name in set(shared) - paid)
        if spent <= BUDGET:
            paid.update(shared)
            out[test] = len(out)
    return out


def _file(test: str) -> str:
    return test.split("::")[0]


class Chosen:
    """A pytest plugin: these tests alone, in this order."""

    def __init__(self, place: dict[str, int]):
        self.place = place

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda i: self.place[i.nodeid])


def run(folder: Path, files: list[str], *plugins: object) -> int:
    """Run test files of a copy in this process, which has to end afterwards; return pytest's exit status."""
    from hypothesis import settings

    os.chdir(folder)
    sys.path[:0] = [str(folder / "src"), *map(str, (folder / "tests" / "tools").iterdir())]
    os.environ["PYTHONPATH"] = str(folder / "src")
    settings.register_profile("the same in every run", database=None, derandomize=True)
    settings.load_profile("the same in every run")
    imported = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
    return pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-W", imported, *files], plugins=list(plugins))


def prepare(folder: Path) -> None:
    """Import all that the package imports, and forget the package itself."""
    sys.path.insert(0, str(folder / "src"))
    package = importlib.import_module("ff_memories")
    for module in pkgutil.walk_packages(package.__path__, "ff_memories."):
        with contextlib.suppress(ImportError):
            importlib.import_module(module.name)
    for name in [name for name in sys.modules if name.split(".")[0] == "ff_memories"]:
        del sys.modules[name]
    del sys.path[0]


def verdict(folder: Path, files: list[str], seconds: float, *plugins: object) -> str:
    """Run test files in a fork: ``passed``, ``failed``, or ``endless`` after so many seconds."""
    child = os.fork()
    if not child:
        os.setsid()
        with open(os.devnull, "w") as nowhere:
            for stream in (1, 2):
                os.dup2(nowhere.fileno(), stream)
        status = 1
        try:
            status = run(folder, files, *plugins)
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "failed" if status else "passed"
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "endless"


def chart(files: list[str]) -> None:
    """Run test files, all for none, and keep which functions each test runs."""
    folder = copied()
    add = bool(files)
    files = files or sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/**/test_*.py"))
    try:
        seen = Covering(folder / PACKAGE)
        run(folder, ["--maxfail=1000", *files], seen)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    known = json.loads(MAP.read_text()) if add and MAP.exists() else {"tests": {}, "shared": {}, "runs": {}}
    known["tests"] = {t: found for t, found in known["tests"].items() if _file(t) not in files} | seen.tests
    known["shared"] |= seen.shared
    for file, ran in seen.runs.items():
        known["runs"].setdefault(file, {}).update({context: sorted(names) for context, names in ran.items()})
    MAP.parent.mkdir(exist_ok=True)
    MAP.write_text(json.dumps(known))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=[*PARTS, "map"])
    parser.add_argument("files", nargs="*", help="map: test files")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--again", action="store_true", help="only what survived before")
    given = parser.parse_args()
    if given.part == "map":
        return chart(given.files)
    out = ROOT / "docs" / "data" / "faults" / f"mutation-{given.part}-{given.seed}.json"
    known = json.loads(MAP.read_text())
    every = [
        ({"file": path.relative_to(ROOT / PACKAGE).as_posix(), "line": line, "before": old, "after": new}, content)
        for path in sorted((ROOT / PACKAGE / given.part).rglob("*.py"))
        for line, old, new, content in mutants(path)
    ]
    said = json.loads(out.read_text(encoding="utf-8")) if given.again else {"seed": given.seed, "mutants": len(every)}
    if given.again:
        left = [row for row in said["survivors"] if not row.get("since") and "why" not in row]
        chosen = [(row, next(c for found, c in every if _same(found, row))) for row in left]
    else:
        chosen = random.Random(given.seed).sample(every, min(given.sample, len(every)))
    folder, rows, end = copied(), [], time.monotonic() + 60 * given.minutes
    prepare(folder)
    try:
        verdict(folder, ["--collect-only", *sorted(set(map(_file, known["tests"])))], 600)  # leaves all bytecode
        sys.dont_write_bytecode = True
        for row, content in chosen:
            if time.monotonic() > end:
                break
            begin, target = time.monotonic(), folder / PACKAGE / row["file"]
            whole, stat = target.read_bytes(), target.stat()
            target.write_text(content, encoding="utf-8")
            place = order(known, row["file"], row["line"])
            files = sorted({_file(test) for test in place})
            found = verdict(folder, files, 30 + LATE * BUDGET, Chosen(place)) if place else "no test"
            target.write_bytes(whole)
            os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # its bytecode is of that time
            rows.append((row, found))
            print(found, f"{time.monotonic() - begin:.0f} s, {len(place)} tests", f"{row['file']}:{row['line']}",
                  row["before"], "->", row["after"], flush=True)  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    survivors = [row for row, found in rows if found in ("passed", "no test")]
    print(f"{len(rows) - len(survivors)} of {len(rows)} noticed; {len(every)} mutants in all")
    if given.again:
        for row, found in rows:
            row["since"] = found not in ("passed", "no test")
    else:
        said |= {"tried": len(rows), "killed": len(rows) - len(survivors), "survivors": survivors}
    out.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def _same(a: dict, b: dict) -> bool:
    return all(a[name] == b[name] for name in ("file", "line", "before", "after"))


if __name__ == "__main__":
    main()
