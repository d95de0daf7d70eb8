"""Update what docs/results.md says of three controls; docs/data/controls.csv keeps the numbers.

``--results`` names folders of runs with ``sensitivity: {choices: controls}`` or more:

    python docs/tools/controls.py --results results/smollm2 results/qwen results/stories15m results/demo
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
from pages import table, update_part

from ff_memories import tables
from ff_memories.judge.numbers import measured
from ff_memories.judge.register import register
from ff_memories.judge.sensitivity import CONTROLS, changes

KEPT = Path("docs/data/controls.csv")
BEGIN = "<!-- controls: python docs/tools/controls.py -->"
COLUMNS = ("run", "control", "claim", "number", "controlled")
CLAIMS = dict(zip(CONTROLS, (["K2"], ["K15", "K16", "K17"], ["K20", "K21", "K22"]), strict=True))  # that it is for
WORDS = dict(zip(CONTROLS, ("an earlier token is read", "values of one length", "90 % of the energy"), strict=True))

Row = Mapping[str, str]


def of_runs(folders: Sequence[Path]) -> list[dict[str, str]]:
    """Return the rows of all runs: each claim's number in the run, and with a control."""
    rows = []
    for folder in folders:
        changed = changes(tables.read(folder / "tables/sensitivity.parquet"))
        named = changed.with_columns(control=pl.concat_str("choice", "value", separator="="))
        for control, claims in CLAIMS.items():
            for row in named.filter(pl.col("control") == control, pl.col("claim").is_in(claims)).iter_rows(named=True):
                numbers = ("" if row[name] is None else f"{row[name]:.6g}" for name in ("baseline", "measured"))
                rows.append(dict(zip(COLUMNS, (folder.name, control, row["claim"], *numbers), strict=True)))
    return rows


def part(rows: Sequence[Row]) -> str:
    """Return the page's table: a line for each claim of a control, a column for each run."""
    runs = list(dict.fromkeys(row["run"] for row in rows))
    of = {(row["control"], row["claim"], row["run"]): row for row in rows}
    lines = []
    for control, claims in CLAIMS.items():
        for claim in (claim for claim in register() if claim.id in claims):
            cells = [_cell(of.get((control, claim.id, run)), claim.unit) for run in runs]
            lines.append([f"{WORDS[control]}: {claim.id}", *cells])
    return table(["control", *runs], lines)


def _cell(row: Row | None, unit: str) -> str:
    if row is None or not row["number"] or not row["controlled"]:
        return "–"
    return " → ".join(measured(float(row[name]), unit) for name in ("number", "controlled"))


def main(argv: Sequence[str] | None = None) -> None:
    update_part(argv, __doc__, "results.md", BEGIN, part, {KEPT: (COLUMNS, of_runs)})


if __name__ == "__main__":
    main()
