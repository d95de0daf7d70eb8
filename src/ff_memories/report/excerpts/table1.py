"""Table 1: keys with a shallow and a semantic pattern, in lower and upper layers, with three triggers each."""

from dataclasses import dataclass

import polars as pl

from ff_memories.base.text import escape_invisible, latex
from ff_memories.model.info import neurons as neurons_of
from ff_memories.report.excerpts.rows import Given, Labelled, Made, passage_latex, table_csv, table_latex
from ff_memories.report.passages import Passage, Texts
from ff_memories.report.rendering import render
from ff_memories.tables.annotation import TYPES, preferred

COLUMNS = ("pattern", "type", "annotator", "covered", "shown", "prefix", "last_token")
PREFIXES = 3


@dataclass(frozen=True)
class Row(Labelled):
    """One key with its clearest pattern, which ``covered`` of its ``shown`` annotated triggers have."""

    pattern: str
    type: str
    covered: int
    shown: int
    passages: tuple[Passage, ...]


def files(given: Given) -> Made:
    """Return the table in all formats."""
    held, info = given.tables, given.info
    keys = neurons_of(info)
    rows = table1(held["annotations"], held["pattern_labels"], held["triggers"], given.texts, info["layers"], keys)
    scope = info["scope"]
    return render("excerpts/table1.html.j2", rows=rows, scope=scope), to_csv(rows, scope), to_latex(rows, scope)


def table1(
    annotations: pl.DataFrame,
    labels: pl.DataFrame,
    triggers: pl.DataFrame,
    texts: Texts,
    layers: int,
    neurons: int | None = None,
) -> list[Row]:
    """Return up to four rows: a shallow and a semantic key from the lower and the upper half of the layers.

    The table thus covers the paper's claim: shallow patterns below, semantic ones above. Each key is the one with the
    clearest pattern of its type: the pattern with the largest lead in covered triggers over the key's patterns of the
    other type. People's annotations take precedence over the proxy's.
    """
    found = preferred(annotations)
    whose, covered = ["annotator", "layer", "key"], pl.col("covered")
    found = found.with_columns(pl.col("ranks").list.len().cast(pl.Int64).alias("covered"))
    of_type = [covered.filter(pl.col("type") == kind).max().over(whose).fill_null(0) for kind in TYPES]
    margin = pl.when(pl.col("type") == TYPES[0]).then(covered - of_type[1]).otherwise(covered - of_type[0])
    order = ["margin", "covered", "layer", "key", "annotator", "pattern"]
    clearest = found.with_columns(margin.alias("margin")).sort(order, descending=[True, True, *[False] * 4])
    upper = 2 * pl.col("layer").cast(pl.Int64) > layers
    rows = []
    for part in (~upper, upper):
        for kind in TYPES:
            rows += _rows(clearest.filter(part, pl.col("type") == kind).head(1), labels, triggers, texts, neurons)
    return rows


def _rows(
    found: pl.DataFrame, labels: pl.DataFrame, triggers: pl.DataFrame, texts: Texts, neurons: int | None
) -> list[Row]:
    rows = []
    for row in found.iter_rows(named=True):
        one = (pl.col("layer") == row["layer"]) & (pl.col("key") == row["key"])
        shown = triggers.filter(one & pl.col("rank").is_in(row["ranks"])).sort("rank").select("sentence", "position")
        rows.append(
            Row(
                row["layer"],
                row["key"],
                neurons,
                row["annotator"],
                escape_invisible(row["description"]),
                row["type"],
                row["covered"],
                labels.filter(one & (pl.col("annotator") == row["annotator"])).height,
                tuple(dict.fromkeys(texts.passage(s, p) for s, p in shown.iter_rows()))[:PREFIXES],
            )
        )
    return rows


def to_csv(rows: list[Row], scope: str) -> str:
    """Return Table 1 as CSV, one line per example prefix."""
    lines = (
        (r.pattern, r.type, r.mark or "people", r.covered, r.shown, p.plain, p.marked) for r in rows for p in r.passages
    )
    keys = (r.fields for r in rows for _ in r.passages)
    return table_csv(COLUMNS, keys, lines, scope)


def to_latex(rows: list[Row], scope: str) -> str:
    """Return Table 1 as a LaTeX ``tabular``, one line per example prefix."""
    cells = [
        (row.latex("k"), f"{latex(row.pattern)} ({row.type})", passage_latex(passage))
        if passage is row.passages[0]
        else ("", "", passage_latex(passage))
        for row in rows
        for passage in row.passages
    ]
    head = [r"Key & Pattern & Example trigger prefixes \\"]
    return table_latex(("l", 0.24, 0.58), scope, rows[0].mark if rows else "", head, cells)
