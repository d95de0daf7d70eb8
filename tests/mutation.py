"""Mutation testing: change one operator or number of the science at a time, and see whether a test notices.

``python tests/mutation.py claims --sample 100`` draws mutants of a part at random, runs its tests in a copy of the
project until the first fails, and writes docs/data/faults/mutation-claims.json. ``--again`` tries those once more that
survived then, and notes which of them are noticed by now.
"""

import argparse
import ast
import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = Path("src/ff_memories")
TESTS = {  # the quickest first: the first failure ends a mutant
    "memories": ["topk", "random_models", "memory", "released"],
    "claims": ["claims", "report"],
    "patterns": ["annotation", "patterns"],
}
LIMIT = 240  # seconds; a mutant that never ends is noticed, too

SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.FloorDiv, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def _code(tree: ast.AST) -> Iterator[ast.AST]:
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


def passes(folder: Path, tests: list[str]) -> bool:
    """Whether the tests pass in a folder; they end at the first failure."""
    files = [f"tests/test_{name}.py" for name in tests if (folder / f"tests/test_{name}.py").exists()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files]
    env = {**os.environ, "PYTHONPATH": str(folder / "src")}
    child = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             start_new_session=True)  # fmt: skip
    try:
        return child.wait(LIMIT * len(tests)) == 0
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return False


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=TESTS)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--again", action="store_true", help="only what survived before")
    given = parser.parse_args()
    out = ROOT / "docs" / "data" / "faults" / f"mutation-{given.part}.json"
    every = [
        (path, *mutant) for path in sorted((ROOT / PACKAGE / given.part).rglob("*.py")) for mutant in mutants(path)
    ]
    chosen = random.Random(given.seed).sample(every, min(given.sample, len(every)))
    before = json.loads(out.read_text(encoding="utf-8")) if given.again else {"survivors": []}
    if given.again:
        survived = [
            (row["file"], row["line"], row["before"], row["after"])
            for row in before["survivors"]
            if not row.get("since") and "why" not in row
        ]
        chosen = [m for m in every if (m[0].relative_to(ROOT / PACKAGE).as_posix(), *m[1:4]) in survived]
    folder, rows, end = copied(), [], time.monotonic() + 60 * given.minutes
    try:
        for path, line, old, new, content in chosen:
            if time.monotonic() > end:
                break
            target = folder / path.relative_to(ROOT)
            target.write_text(content, encoding="utf-8")
            row = {"file": path.relative_to(ROOT / PACKAGE).as_posix(), "line": line, "before": old, "after": new}
            rows.append(row | {"killed": not passes(folder, TESTS[given.part])})
            shutil.copy(path, target)
            found = "killed  " if rows[-1]["killed"] else "SURVIVED"
            print(found, f"{row['file']}:{line}", old, "->", new, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    killed = sum(row["killed"] for row in rows)
    print(f"{killed} of {len(rows)} killed; {len(every)} mutants in all")
    if given.again:
        noticed = {(row["file"], row["line"], row["before"], row["after"]) for row in rows if row["killed"]}
        for row in before["survivors"]:
            known = row.get("since", False)
            row["since"] = known or (row["file"], row["line"], row["before"], row["after"]) in noticed
        said = before
    else:
        survivors = [row for row in rows if not row["killed"]]
        said = {"seed": given.seed, "mutants": len(every), "tried": len(rows), "killed": killed, "survivors": survivors}
    out.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
