"""Run a notebook's cells in one namespace, and write the notebook with its outputs as a Markdown page.

This needs no kernel: a cell is plain Python, and the value of its last expression is shown as in Jupyter.
"""

import ast
import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One cell of a notebook: its kind, ``markdown`` or ``code``, and its text."""

    kind: str
    source: str


@dataclass(frozen=True)
class Output:
    """The output of a code cell: printed text, and the value of its last expression as HTML, if it has an HTML form."""

    printed: str = ""
    html: str = ""


def cells(path: Path) -> list[Cell]:
    """Read the cells of a notebook."""
    read = json.loads(path.read_text(encoding="utf-8"))
    return [Cell(cell["cell_type"], "".join(cell["source"])) for cell in read["cells"]]


def run(found: list[Cell], folder: Path) -> Iterator[Output]:
    """Run the code cells in order, in a folder; yield each cell's output, which is empty for Markdown."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(found, 1):
        if cell.kind != "code":
            yield Output()
            continue
        tree = ast.parse(cell.source)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.chdir(folder):
            exec(compile(tree, f"<cell {number}>", "exec"), names)
            value = None
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), names)
            html = shown(value)
            if value is not None and not html:
                print(value)
        yield Output(printed.getvalue(), html)


def shown(value: object) -> str:
    """Return a value as HTML: a chart as SVG, a table in its own form; an empty string if it has only text."""
    if bundle := getattr(value, "_repr_mimebundle_", None):
        return str(bundle()["image/svg+xml"])
    return str(value._repr_html_()) if hasattr(value, "_repr_html_") else ""


def page(found: list[Cell], outputs: list[Output]) -> str:
    """Return a notebook as Markdown; without outputs, only text and code."""
    parts = []
    for cell, output in zip(found, outputs or [Output()] * len(found), strict=True):
        if cell.kind == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        if output.printed:
            parts.append(f"```text\n{output.printed.rstrip()}\n```")
        if output.html:
            block = "\n".join(line for line in output.html.splitlines() if line.strip())
            parts.append(f'<div class="output">{block}</div>')
    return "\n\n".join(parts) + "\n"
