"""Write docs/steps.md: each step's section in the paper, definition, functions, tables and figures."""

import ast
import tomllib
from typing import Any

from pages import ROOT, options, renew

from ff_memories.figures.registry import DRAWN, caption, title
from ff_memories.tables import TABLES

PAGE, ENTRIES = ROOT / "docs" / "steps.md", ROOT / "docs" / "tools" / "steps.toml"
PACKAGE = ROOT / "src" / "ff_memories"
HEAD = """\
# The steps

    text ─► corpus ─► model ─► triggers ─► patterns ─────────┐
          (sentences) (keys,   │  │                          │
                      values)  │  └─► mutations ─────────────┤
                         │     ▼                             ├─► figures, claims,
                         └─► values ─► agreement ────────────┤   report, gallery
                              │                              │
           validation text ───┴─► composition ─► refinement ─┘

Each section describes one step: its definition, its functions, and its tables with their columns.
`snakemake -- results/demo/tables/values.parquet` makes a table and all that it depends on. Column types are those of
polars. Layers count from 1, keys from 0. E1 to E14 are this package's numbers for the paper's experiments. `python
docs/tools/steps.py` generates this page.
"""


def page() -> str:
    """Return the page as Markdown. Raises ``KeyError`` or ``ValueError`` for an unknown table or function."""
    entries = tomllib.loads(ENTRIES.read_text(encoding="utf-8"))["step"]
    contents = [f"- [{entry['title']}](#{_anchor(entry['title'])})" for entry in entries]
    return "\n".join([HEAD, *contents, *(line for entry in entries for line in _section(entry))]) + "\n"


def _section(entry: dict[str, Any]) -> list[str]:
    sections = "sections" if " " in entry["section"] else "section"
    where = f"The paper's {sections} {entry['section']}. " if entry["section"] else ""
    lines = ["", f"## {entry['title']}", "", f"{where}Rule `{entry['rule']}`.", "", entry["definition"], ""]
    lines += [f"- {_function(name)}" for name in entry["functions"]]
    for name in entry["tables"]:
        schema = TABLES[name]
        lines += ["", f"Table `{name}`{_about(schema.about)}.", "", "| column | type | note |", "|---|---|---|"]
        for column, kind in schema.columns.items():
            notes = ["key"] * (column in schema.key) + ["may be null"] * (column in schema.may_be_null)
            lines.append(f"| `{column}` | {_kind(kind)} | {', '.join(notes)} |")
    shown = [figure for figure, drawn in DRAWN.items() if set(drawn.tables) & set(entry["tables"])]
    return lines + [line for figure in shown for line in ("", f"**{title(figure)}.** {caption(figure)}")]


def _about(about: str) -> str:
    """Return a table's description after its name; the experiment stands in parentheses."""
    experiment, _, rest = about.partition(": ")
    return f" ({experiment}): {rest}" if experiment.startswith("E") and rest else f": {about}"


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
    raise ValueError(f"steps.toml: no function {dotted}")


def _anchor(heading: str) -> str:
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c == "-")


def main(argv: list[str] | None = None) -> None:
    args = options(__doc__, PAGE).parse_args(argv)
    renew(args.out, page(), args.check)


if __name__ == "__main__":
    main()
