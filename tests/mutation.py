"""Mutation testing: change one operator or number of the science at a time, and see whether a test notices.

``python tests/mutation.py --sample 100 --seed 1`` draws mutants at random, runs the tests of the part in a copy of the
project until the first fails, and writes docs/data/mutation.json. Each mutant is a fork of this process, so that
libraries are loaded once. ``--only FILE:LINE`` tries the mutants of one line.
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
    "memories": ["topk", "memory", "draws", "random_models", "released", "vocabulary", "reference", "planted"],
    "claims": ["claims", "measures"],
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
    """Whether the tests pass in a folder; runs them in a fork, which ends at the first failure."""
    if not (child := os.fork()):
        os.setsid()
        sys.path[:] = [str(folder / "src"), str(folder / "tests"), *(p for p in sys.path if str(ROOT) not in p)]
        os.environ["PYTHONPATH"] = str(folder / "src")
        os.chdir(folder)
        silence = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(silence, stream)
        import pytest

        files = [f"tests/test_{name}.py" for name in tests if (folder / f"tests/test_{name}.py").exists()]
        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *files])))
    end = time.monotonic() + LIMIT * len(tests)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--parts", nargs="+", choices=TESTS, default=list(TESTS))
    parser.add_argument("--only", help="FILE:LINE, the file within the package")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "data" / "mutation.json")
    given = parser.parse_args()
    import pandas  # noqa: F401  (libraries that the forks share)
    import polars  # noqa: F401
    import safetensors.torch  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.feature_extraction.text  # noqa: F401
    import torch

    torch.set_num_threads(1)
    every = [
        (part, path, *mutant)
        for part in given.parts
        for path in sorted((ROOT / PACKAGE / part).rglob("*.py"))
        for mutant in mutants(path)
    ]
    chosen = random.Random(given.seed).sample(every, min(given.sample, len(every)))
    if given.only:
        chosen = [m for m in every if f"{m[1].relative_to(ROOT / PACKAGE)}:{m[2]}" == given.only]
    folder, rows, end = copied(), [], time.monotonic() + 60 * given.minutes
    try:
        for part, path, line, before, after, content in chosen:
            if time.monotonic() > end:
                break
            target = folder / path.relative_to(ROOT)
            target.write_text(content, encoding="utf-8")
            row = {"file": path.relative_to(ROOT / PACKAGE).as_posix(), "line": line, "before": before, "after": after}
            rows.append(row | {"killed": not passes(folder, TESTS[part])})
            shutil.copy(path, target)
            print(
                "killed  " if rows[-1]["killed"] else "SURVIVED",
                f"{row['file']}:{line}",
                before,
                "->",
                after,
                flush=True,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    killed = sum(row["killed"] for row in rows)
    print(f"{killed} of {len(rows)} killed; {len(every)} mutants in all")
    if not given.only:
        survivors = [row for row in rows if not row["killed"]]
        said = {"seed": given.seed, "mutants": len(every), "tried": len(rows), "killed": killed, "survivors": survivors}
        given.out.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
