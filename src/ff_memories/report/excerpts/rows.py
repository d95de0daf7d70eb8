"""What Tables 1 to 3 are made from, and what they have in common in each format."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ff_memories.base.text import MINUS, csv_text, key_and_sign, latex, memory_name, opened
from ff_memories.config import Settings
from ff_memories.model.info import mark_latex
from ff_memories.report.passages import Passage, Texts
from ff_memories.tables.annotation import marks

Made = tuple[str, str, str]  # HTML, CSV and LaTeX


@dataclass(frozen=True)
class Given:
    """A run's tables by name, its texts, its model info, its settings, and how many rows a long table has at most."""

    tables: Mapping[str, pl.DataFrame]
    texts: Texts
    info: Mapping[str, Any]
    config: Settings
    rows: int


@dataclass(frozen=True)
class Key:
    """A key, or its value; ``neurons``: d_m where both signs of a coefficient count, else ``None``."""

    layer: int
    key: int
    neurons: int | None

    @property
    def name(self) -> str:
        """Return the key as readers see it (``base.text``)."""
        return memory_name(self.key, self.neurons)

    @property
    def fields(self) -> dict[str, int]:
        """Return the CSV's fields that name the key; with both signs, there are three."""
        if self.neurons is None:
            return {"layer": self.layer, "key": self.key}
        key, sign = key_and_sign(self.key, self.neurons)
        return {"layer": self.layer, "key": key, "sign": sign}

    def latex(self, letter: str) -> str:
        """Return the key's name in LaTeX, a bold ``letter`` with indices."""
        return f"$\\mathbf{{{letter}}}_{{{self.name.replace(MINUS, '-')}}}^{{{self.layer}}}$"


@dataclass(frozen=True)
class Labelled(Key):
    """A key whose patterns this annotator found."""

    annotator: str

    @property
    def mark(self) -> str:
        """Return the mark of an annotator who is not a person, or nothing."""
        return ", ".join(marks([self.annotator])).lower()


def table_csv(
    columns: Sequence[str],
    keys: Iterable[Mapping[str, int]],
    lines: Iterable[Sequence[Any]],
    scope: str,
    more: Sequence[str] = (),
    beyond: Sequence[Sequence[Any]] = (),
) -> str:
    """Return a table as CSV.

    Args:
        columns: those between the key's and ``scope``.
        keys: the key's fields of each line.
        lines: cells of ``columns``.
        scope: whose results these are.
        more, beyond: columns behind ``scope``, and their cells of each line.
    """
    named = list(keys)
    header = [*(named[0] if named else ("layer", "key")), *columns, "scope", *more]
    last = beyond or [()] * len(named)
    rows = ([*key.values(), *own, scope, *end] for key, own, end in zip(named, lines, last, strict=True))
    return csv_text(header, rows)


def table_latex(
    widths: Sequence[str | float], scope: str, mark: str, head: Sequence[str], rows: Iterable[Sequence[str]]
) -> str:
    """Return a table as a LaTeX ``tabular`` (its packages in the first line).

    Args:
        widths: of its columns (``base.text.opened``).
        scope: whose results these are.
        mark: who found the patterns, if not people.
        head: lines between the rules, the last of them with the columns' heads.
        rows: of cells that are LaTeX.
    """
    lines = opened("tabular", *widths) + mark_latex(scope, len(widths))
    if mark:
        lines.append(f"\\multicolumn{{{len(widths)}}}{{l}}{{\\textbf{{not labelled by people: {mark}}}}} \\\\")
    lines += [*head, r"\midrule", *(f"{' & '.join(cells)} \\\\" for cells in rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def passage_latex(passage: Passage | None) -> str:
    """Return a passage, its last token bold."""
    if passage is None:
        return ""
    before = " ".join(filter(None, [r"\dots" if passage.cut else "", latex(passage.before)]))
    return f"{before} \\textbf{{{latex(passage.marked)}}}" if passage.marked else before
