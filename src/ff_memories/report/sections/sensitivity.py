"""Build the report's section on analysis choices: which claims they move and which verdicts they change."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from ff_memories.judge.numbers import measured
from ff_memories.judge.register import register
from ff_memories.judge.sensitivity import changes
from ff_memories.judge.wording import word
from ff_memories.report.wording import finished, listed


def choices_section(table: pl.DataFrame, part: dict[str, Any] | None) -> dict[str, Any]:
    """Return the template's data from the `sensitivity` table: its figure, counts, changed verdicts, largest effects.

    ``reaching`` maps each claim to the number of choices that change its number at all, and ``strongest`` each
    claim that a choice moves to a choice that changes its verdict, or else to the one with the largest effect.
    """
    frame, units = changes(table), {claim.id: claim.unit for claim in register()}
    tried = frame.select("choice", "value").unique().height
    moving = frame.filter(pl.col("beyond")).select("choice", "value").unique().height
    rows = [row | {"unit": units[row["claim"]]} for row in frame.iter_rows(named=True)]
    changed = [row for row in rows if row["changed"]]
    farthest: dict[str, dict[str, Any]] = {}
    for row in sorted((r for r in rows if r["beyond"] and r["change"]), key=lambda r: -abs(r["change"])):
        farthest.setdefault(row["claim"], row)
    choices: dict[tuple[str, str, str], list[str]] = {}
    for row in changed:
        words = (word(row["was"]), word(row["verdict"]))
        choices.setdefault((row["claim"], *words), []).append(f"{row['choice']}: {row['value']}")
    changing = [
        f"the verdict on {claim} changes from “{was}” to “{verdict}” with {listed(names, 'or')}"
        for (claim, was, verdict), names in choices.items()
    ] or ["no verdict changes"]
    if refused := list(dict.fromkeys(f"{row['choice']}: {row['value']}" for row in rows if row["refused"])):
        changing.append(f"a run with {listed(refused, 'or')} is refused, so it has no verdicts")
    return {
        "part": part,
        "tried": tried,
        "moving": moving,
        "changed": changed,
        "changing": finished("; ".join(changing)),
        "becomes": [f"{claim} to “{verdict}”" for claim, verdict in dict.fromkeys((c, v) for c, _, v in choices)],
        "farthest": sorted(farthest.values(), key=rows.index),
        "reaching": Counter(row["claim"] for row in rows if row["change"] != 0),
        "strongest": farthest | {row["claim"]: row for row in reversed(changed) if row["measured"] is not None},
    }


def influence(choices: Mapping[str, Any], claims: Collection[str]) -> str:
    """Return a sentence on the choice with the largest effect on any of these claims.

    ``choices``: from ``choices_section``.
    """
    own = [row for claim, row in choices["strongest"].items() if claim in claims]
    if not own:
        reaching = [claim for claim in claims if choices["reaching"][claim]]
        if not reaching:
            return "No choice that was tried changes a number here, so this run does not show how robust they are."
        return f"Choices that were tried change {listed(reaching)}, none of them beyond its 95 % interval."
    row = max(own, key=lambda row: (bool(row["changed"]), abs(row["change"] or 0)))
    verdict = f", and the verdict becomes “{word(row['verdict'])}”" if row["changed"] else ""
    return (
        f"With {row['choice']}: {row['value']}, {row['claim']} is {measured(row['measured'], row['unit'])} "
        f"instead of {measured(row['baseline'], row['unit'])}{verdict}."
    )
