"""The report's section on choices: which of them move which claim, and which verdicts hang on one."""

from typing import Any

import polars as pl

from ff_memories.claims.register import register
from ff_memories.claims.sensitivity.table import changes


def choices_section(table: pl.DataFrame, part: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the template shows of the `sensitivity` table: its figure, tallies, flips and farthest moves."""
    frame, units = changes(table), {claim.id: claim.unit for claim in register()}
    tried = frame.select("choice", "value").unique().height
    moving = frame.filter(pl.col("beyond")).select("choice", "value").unique().height
    rows = [row | {"unit": units[row["claim"]]} for row in frame.iter_rows(named=True)]
    farthest = sorted((r for r in rows if r["beyond"] and r["change"]), key=lambda r: -abs(r["change"]))
    first: dict[str, dict[str, Any]] = {}
    for row in farthest:
        first.setdefault(row["claim"], row)
    return {
        "part": part,
        "tried": tried,
        "moving": moving,
        "flips": [row for row in rows if row["flip"]],
        "farthest": sorted(first.values(), key=lambda r: rows.index(r)),
    }
