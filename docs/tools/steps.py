"""The part of docs/commands.md on steps: definition, tables and figures of each, from steps.toml."""

import re
import tomllib
from typing import Any

from pages import ROOT

from ff_memories.figures.registry import DRAWN, title
from ff_memories.tables import TABLES

ENTRIES = ROOT / "docs" / "tools" / "steps.toml"
HEAD = """\
## Steps and tables

    checkpoint ─► model ─┬─► corpus ─► triggers ─┬─► patterns ──────────────┐
                         │ (sentences)           ├─► mutations ─────────────┼─► figures, claims,
    text ────────────────┘                       └─► values ─► composition ─┘   report, gallery
                                                   (agreement) (refinement)

`snakemake -- results/demo/tables/values.parquet` makes a table and all that it depends on. Layers count from 1, keys
from 0. Columns in **bold** name a row, and so does `sign` where negative coefficients count; columns that only some
runs have are left out. E1 to E14 are this package's numbers for the paper's experiments.
"""


def part() -> str:
    """Return the steps as Markdown. Raises ``KeyError`` for an unknown table."""
    entries = tomllib.loads(ENTRIES.read_text(encoding="utf-8"))["step"]
    return "\n".join([HEAD, *(line for entry in entries for line in _section(entry))])


def _section(entry: dict[str, Any]) -> list[str]:
    sections = "sections" if " " in entry["section"] else "section"
    where = f", the paper's {sections} {entry['section']}" if entry["section"] else ""
    shown = [figure for figure, drawn in DRAWN.items() if set(drawn.tables) & set(entry["tables"])]
    lines = [f"### {entry['title']}", "", f"Rule `{entry['rule']}`{where}. {entry['definition']}", ""]
    lines += [f"- {_table(name)}" for name in entry["tables"]]
    lines += [f"- {', '.join(map(title, shown))}"] if shown else []
    return [*lines, *([""] if lines[-1] else [])]


def _table(name: str) -> str:
    """Return the first sentence of a table's description, and its columns; the experiment stands in parentheses."""
    schema = TABLES[name]
    experiment, _, rest = schema.about.partition(": ")
    about = f" ({experiment}): {rest}" if experiment.startswith("E") and rest else f": {schema.about}"
    about = re.split(r"[.;] ", about)[0]
    columns = ", ".join(f"**`{column}`**" if column in schema.key else f"`{column}`" for column in schema.columns)
    return f"Table `{name}`{about}. {columns}"
