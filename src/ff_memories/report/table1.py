"""Table 1: keys of some layers, the pattern that most of their triggers show, and three of those."""

from dataclasses import dataclass

import polars as pl

from ff_memories.base.escaping import csv_text, escape_invisible
from ff_memories.base.latex import latex, opened
from ff_memories.claims.layers import at
from ff_memories.patterns.annotators import ANNOTATOR, marks
from ff_memories.report.passages import Passage, Texts

PAPER_LAYERS = (1, 6, 10, 13, 16)  # of which the paper's Table 1 shows a key each
PREFIXES = 3


@dataclass(frozen=True)
class Row:
    """One key with its clearest pattern; ``covered`` of its ``shown`` annotated triggers have it."""

    layer: int
    key: int
    pattern: str
    type: str
    annotator: str
    covered: int
    shown: int
    passages: tuple[Passage, ...]

    @property
    def mark(self) -> str:
        """What is said beside every pattern that no person found."""
        return said(self.annotator)


def said(annotator: str) -> str:
    """Return the words that mark an annotator who is no person, or nothing."""
    return ", ".join(marks([annotator])).lower()


def table1(
    annotations: pl.DataFrame, labels: pl.DataFrame, triggers: pl.DataFrame, texts: Texts, layers: int
) -> list[Row]:
    """Return one row for each of the paper's layers, at the same relative depth, in which a key has a pattern.

    The key is the one whose pattern covers most triggers. People's annotations are shown before the proxy's.
    """
    people = annotations.filter(pl.col("annotator") != ANNOTATOR)
    found = people if people.height else annotations
    clearest = found.with_columns(pl.col("ranks").list.len().alias("covered")).sort(
        ["layer", "covered", "key", "annotator", "pattern"], descending=[False, True, False, False, False]
    )
    rows = []
    for layer in sorted({at(paper, layers) for paper in PAPER_LAYERS}):
        for row in clearest.filter(pl.col("layer") == layer).head(1).iter_rows(named=True):
            one = (pl.col("layer") == layer) & (pl.col("key") == row["key"])
            shown = triggers.filter(one & pl.col("rank").is_in(row["ranks"])).sort("rank").head(PREFIXES)
            rows.append(
                Row(
                    layer,
                    row["key"],
                    escape_invisible(row["description"]),
                    row["type"],
                    row["annotator"],
                    row["covered"],
                    labels.filter(one & (pl.col("annotator") == row["annotator"])).height,
                    tuple(texts.passage(s, p) for s, p in shown.select("sentence", "position").iter_rows()),
                )
            )
    return rows


def to_csv(rows: list[Row], scope: str) -> str:
    """Return Table 1 as CSV, one line per example prefix."""
    header = ["layer", "key", "pattern", "type", "annotator", "covered", "shown", "prefix", "last_token", "scope"]
    return csv_text(header, (
        [r.layer, r.key, r.pattern, r.type, r.mark or "people", r.covered, r.shown, p.plain, p.marked,
         scope]
        for r in rows for p in r.passages
    ))  # fmt: skip


def to_latex(rows: list[Row], scope: str) -> str:
    """Return Table 1 as a LaTeX ``tabular`` (its packages in the first line), one line per example prefix."""
    lines = opened("tabular", "l", 0.24, 0.58)
    if scope == "surrogate":
        lines.append(r"\multicolumn{3}{l}{\textbf{surrogate model: not the paper's}} \\")
    lines += [r"Key & Pattern & Example trigger prefixes \\", r"\midrule"]
    for row in rows:
        heads = [f"$\\mathbf{{k}}_{{{row.key}}}^{{{row.layer}}}$", f"{latex(row.pattern)} ({_kind(row)})"]
        for passage in row.passages:
            before = " ".join(filter(None, [r"\dots" if passage.cut else "", latex(passage.before)]))
            lines.append(f"{heads[0]} & {heads[1]} & {before} \\textbf{{{latex(passage.marked)}}} \\\\")
            heads = ["", ""]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _kind(row: Row) -> str:
    return f"{row.type}, {row.mark}" if row.mark else row.type
