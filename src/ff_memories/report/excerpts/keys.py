"""How Tables 1 to 3 name a key, its annotator and a passage."""

from collections.abc import Iterable
from typing import Any

from ff_memories.base.text import MINUS, key_and_sign, latex, memory_name
from ff_memories.report.passages import Passage
from ff_memories.tables.annotation import marks


class NamedKey:
    """A row about one key; ``neurons``: d_m where both signs of a coefficient count, else ``None``."""

    key: int
    neurons: int | None

    @property
    def name(self) -> str:
        """Return the key as readers see it (``base.text``)."""
        return memory_name(self.key, self.neurons)


class LabelledKey(NamedKey):
    """A row about the patterns that one annotator found in a key's triggers."""

    annotator: str

    @property
    def mark(self) -> str:
        """Return the mark of an annotator who is not a person, or nothing."""
        return ", ".join(marks([self.annotator])).lower()


def key_columns(rows: Iterable[Any]) -> list[str]:
    """Return the CSV columns that name a key; with both signs, there are two. ``rows``: with ``neurons``."""
    return ["key", "sign"] if any(row.neurons is not None for row in rows) else ["key"]


def key_cells(memory: int, neurons: int | None) -> list[int]:
    """Return the cells of ``key_columns``."""
    return [memory] if neurons is None else list(key_and_sign(memory, neurons))


def name_latex(name: str) -> str:
    """Return a key's name for LaTeX's math mode."""
    return name.replace(MINUS, "-")


def passage_latex(passage: Passage) -> str:
    """Return a passage, its last token bold."""
    before = " ".join(filter(None, [r"\dots" if passage.cut else "", latex(passage.before)]))
    return f"{before} \\textbf{{{latex(passage.marked)}}}" if passage.marked else before


def not_by_people(mark: str, columns: int) -> list[str]:
    """Return the LaTeX table row that names the annotator if the patterns were not found by people."""
    return [f"\\multicolumn{{{columns}}}{{l}}{{\\textbf{{not labelled by people: {mark}}}}} \\\\"] if mark else []
