"""Write the claims and their verdicts as a LaTeX table."""

import polars as pl

from ff_memories.base.text import latex, opened
from ff_memories.judge.numbers import measured, spread
from ff_memories.judge.register import register
from ff_memories.judge.wording import OWN_TEXT, TRAINING, natural, notes, word
from ff_memories.model.info import mark_latex


def to_latex(claims: pl.DataFrame, scope: str) -> str:
    """Return the `claims` table as a LaTeX ``longtable`` (its packages in the first line), one line per claim."""
    units = {claim.id: claim.unit for claim in register()}
    lines = opened("longtable", "l", 0.2, 0.13, 0.11, "r", "r", "r", 0.1, 0.1)
    lines += mark_latex(scope, 9)
    lines += [
        r"Claim & Statement & The paper & This run & $n$ & Same sentences & Untrained & Verdict & Training \\",
        r"\midrule",
        r"\endhead",
    ]
    for row in sorted(claims.iter_rows(named=True), key=lambda r: natural(r["claim"])):
        unit, interval = units[row["claim"]], spread(row["low"], row["high"], units[row["claim"]])
        found = measured(row["measured"], unit) + (f" ({interval})" if interval else "")
        own = f" ({OWN_TEXT})" if OWN_TEXT in notes(row["reason"]) else ""
        cells = [row["claim"], row["statement"] + own, row["paper_value"], found]
        cells += ["–" if row["n"] is None else f"{row['n']:,}"]
        cells += [measured(row[column], unit) for column in ("sample", "baseline")]
        cells += [word(row["verdict"]), TRAINING.get(row["training"], "–")]
        lines.append(" & ".join(map(_typeset, cells)) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{longtable}", ""])


def _typeset(text: str) -> str:
    """Return text for LaTeX, with signs that its fonts may lack set in math mode."""
    signs = {"−": "$-$", "×": r"$\times$", "–": "--", "≥": r"$\geq$", "≤": r"$\leq$", "≈": r"$\approx$", "→": r"$\to$"}
    return "".join(signs.get(c, c) for c in latex(text))
