"""Update the table of docs/reviewing.md that leads from a claim to the files and tables behind it, and to its number.

Claims and figures name all but the numbers, which are the demo's in docs/data/findings.json.
"""

import json
from collections.abc import Sequence

from pages import ROOT, options, renew, replaced, table

from ff_memories.figures.registry import FIGURES
from ff_memories.judge import wording
from ff_memories.judge.numbers import measured
from ff_memories.judge.register import Claim, register
from ff_memories.report.outline import part_of

KEPT = "docs/data/findings.json"
BEGIN = "<!-- claims to files: python docs/tools/reviewing.py -->"
RUN = "demo"
TABLES = {"table1": ["pattern_labels"], "table2": ["values"], "table3": ["refinement"]}


def place(claim: Claim) -> str:
    """Return where the paper, or this package, shows a claim: its figure or table, else its section in words."""
    return part_of(claim) or claim.source.partition(",")[0]


def lines(claims: Sequence[Claim], numbers: dict[str, dict]) -> list[list[str]]:
    """Return the rows: the place, its claims with the demo's numbers, the files that show it, the tables behind it."""
    rows = []
    for where in dict.fromkeys(map(place, claims)):
        of = [claim for claim in claims if place(claim) == where]
        shown = FIGURES.get(where)
        tables = shown.tables if shown else TABLES.get(where, ())
        folder = "figures" if shown else "report"
        file = f"`{folder}/{where}.{'pdf' if shown else 'html'}`" if shown or tables else "`report/report.html`"
        said = [f"{claim.id} {_number(claim, numbers[claim.id])}" for claim in of]
        label = of[0].source.rpartition(", ")[2] if part_of(of[0]) else f"text of {where}"
        rows.append([label, "; ".join(said), file, ", ".join(f"`{name}`" for name in tables) or "`claims`"])
    return rows


def _number(claim: Claim, row: dict) -> str:
    mark = wording.WORDS[row["standing"]].get("mark", "")
    return f"{mark} {measured(row['measured'], claim.unit)}".strip()


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__, ROOT / "docs" / "reviewing.md").parse_args(argv)
    runs = json.loads((ROOT / KEPT).read_text(encoding="utf-8"))
    numbers = {row["claim"]: row for run in runs if run["run"] == RUN for row in run["claims"]}
    head = ["where", "claims, with the demo's mark and number", "file in `results/demo/`", "tables"]
    part = table(head, lines(register(), numbers))
    page = (ROOT / "docs" / "reviewing.md").read_text(encoding="utf-8")
    renew(args.out, replaced(page, BEGIN, part), args.check)


if __name__ == "__main__":
    main()
