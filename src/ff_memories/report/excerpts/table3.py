"""Table 3 (Appendix A): one key with all its patterns, and the trigger prefixes that have them."""

from dataclasses import dataclass

import polars as pl

from ff_memories.base.text import escape_invisible, latex
from ff_memories.model.info import neurons as neurons_of
from ff_memories.report.excerpts.rows import Given, Labelled, Made, passage_latex, table_csv, table_latex
from ff_memories.report.passages import Passage, Texts
from ff_memories.report.rendering import render
from ff_memories.tables.annotation import TYPES, preferred

COLUMNS = ("annotator", "rank", "patterns", "descriptions", "prefix", "last_token")


@dataclass(frozen=True)
class AnnotatedKey(Labelled):
    """One annotator's reading of a key: patterns as (number, description, type), and prefixes with their patterns."""

    patterns: tuple[tuple[int, str, str], ...]
    prefixes: tuple[tuple[int, tuple[int, ...], Passage], ...]


def files(given: Given) -> Made:
    """Return the table in all formats."""
    held, top, scope = given.tables, given.config.patterns.top, given.info["scope"]
    found = annotated_key(held["annotations"], held["triggers"], given.texts, top, neurons_of(given.info))
    return render("excerpts/table3.html.j2", found=found, scope=scope), to_csv(found, scope), to_latex(found, scope)


def annotated_key(
    annotations: pl.DataFrame, triggers: pl.DataFrame, texts: Texts, shown: int, neurons: int | None = None
) -> AnnotatedKey | None:
    """Return the key whose patterns cover most of its first ``shown`` triggers, preferring keys with both types.

    People's annotations take precedence over the proxy's. Ties go to lower layers, then to lower keys.
    """
    found = preferred(annotations)
    if found.is_empty():
        return None
    keys = found.group_by("annotator", "layer", "key").agg(
        (pl.col("type").n_unique() == len(TYPES)).alias("both"),
        pl.col("ranks").explode().n_unique().alias("covered"),
    )
    best = keys.sort("both", "covered", "layer", "key", "annotator", descending=[True, True, False, False, False])
    who = best.row(0, named=True)
    one = (pl.col("layer") == who["layer"]) & (pl.col("key") == who["key"])
    mine = found.filter(one & (pl.col("annotator") == who["annotator"])).sort("pattern")
    held = [(row["pattern"], row["ranks"]) for row in mine.iter_rows(named=True)]
    rows = triggers.filter(one & (pl.col("rank") <= shown)).sort("rank").select("rank", "sentence", "position")
    return AnnotatedKey(
        who["layer"],
        who["key"],
        neurons,
        who["annotator"],
        tuple(
            (n, escape_invisible(text), kind)
            for n, text, kind in mine.select("pattern", "description", "type").iter_rows()
        ),
        tuple((r, tuple(n for n, ranks in held if r in ranks), texts.passage(s, p)) for r, s, p in rows.iter_rows()),
    )


def to_csv(found: AnnotatedKey | None, scope: str) -> str:
    """Return Table 3 as CSV, one line per prefix."""
    if found is None:
        return table_csv(COLUMNS, [], [], scope)
    named = {n: f"{text} ({kind})" for n, text, kind in found.patterns}
    lines = [
        (found.mark or "people", rank, " ".join(map(str, held)), "; ".join(named[n] for n in held), p.plain, p.marked)
        for rank, held, p in found.prefixes
    ]
    return table_csv(COLUMNS, [found.fields] * len(lines), lines, scope)


def to_latex(found: AnnotatedKey | None, scope: str) -> str:
    """Return Table 3 as a LaTeX ``tabular``, one line per prefix."""
    patterns, prefixes, mark = (found.patterns, found.prefixes, found.mark) if found else ((), (), "")
    head = [f"{n} & \\multicolumn{{2}}{{l}}{{{latex(text)} ({kind})}} \\\\" for n, text, kind in patterns]
    head += [r"\midrule", r"Rank & Patterns & Trigger prefix \\"]
    cells = [(str(rank), ", ".join(map(str, held)), passage_latex(passage)) for rank, held, passage in prefixes]
    return table_latex(("r", "l", 0.75), scope, mark, head, cells)
