"""docs/steps.md: each step with the paper's section, the definition, the functions, the tables and the figures."""

import ast
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from ff_memories.figures.registry import DRAWN, caption, title
from ff_memories.tables import TABLES

PACKAGE = Path(__file__).parent.parent
HEAD = """\
# The steps

One section for each step, in the order of the workflow. `snakemake RULE` makes a step's tables. Types are those of
polars; `layer` counts from 1, `key` from 0. This page follows from the package: `ff-memories steps-docs`.
"""


def page() -> str:
    """Return the page as Markdown. Raises ``KeyError`` or ``ValueError`` on a table or function that there is not."""
    entries = tomllib.loads(files("ff_memories.guide").joinpath("steps.toml").read_text(encoding="utf-8"))["step"]
    contents = [f"- [{entry['title']}](#{_anchor(entry['title'])})" for entry in entries]
    return "\n".join([HEAD, *contents, *(line for entry in entries for line in _section(entry))]) + "\n"


def _section(entry: dict[str, Any]) -> list[str]:
    where = f"The paper's section {entry['section']}. " if entry["section"] else ""
    lines = ["", f"## {entry['title']}", "", f"{where}Rule `{entry['rule']}`.", "", entry["definition"], ""]
    lines += [f"- {_function(name)}" for name in entry["functions"]]
    for name in entry["tables"]:
        schema = TABLES[name]
        lines += ["", f"Table `{name}`: {schema.about}.", "", "| column | type | |", "|---|---|---|"]
        for column, kind in schema.columns.items():
            notes = ["key"] * (column in schema.key) + ["may be null"] * (column in schema.nullable)
            lines.append(f"| `{column}` | {_kind(kind)} | {', '.join(notes)} |")
    shown = [figure for figure, drawn in DRAWN.items() if set(drawn.tables) & set(entry["tables"])]
    return lines + [line for figure in shown for line in ("", f"**{title(figure)}.** {caption(figure)}")]


def _kind(kind: object) -> str:
    return str(kind).replace("|", "/") if not hasattr(kind, "categories") else ", ".join(kind.categories)


def _function(dotted: str) -> str:
    """Return a link to a function with the first line of its docstring."""
    module, _, name = dotted.rpartition(".")
    path = PACKAGE.joinpath(*module.split(".")).with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            said = (ast.get_docstring(node) or "").partition("\n")[0]
            return f"[`{dotted}`](../src/ff_memories/{path.relative_to(PACKAGE).as_posix()}): {said}"
    raise ValueError(f"steps.toml: there is no function {dotted}")


def _anchor(heading: str) -> str:
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c == "-")
