"""Test that the LaTeX of tables is valid for any text, and compiles if LaTeX is installed."""

import re

import pytest
from reports import ANNOTATIONS, HOSTILE, LABELS, TRIGGERS, first_table, frame, texts, value

from ff_memories.report.html import render
from ff_memories.report.tables123 import table2


def pieces():
    """Return every piece of LaTeX that the package writes, with hostile text in it."""
    values = frame("values", *(value(4 + i, key=i) for i in range(len(HOSTILE))))
    first, second = (first_table(ANNOTATIONS, LABELS, TRIGGERS), table2(values, TRIGGERS, texts(), "next"))
    return {
        "table1": render("tables123/table1.tex.j2", rows=first, scope="surrogate"),
        "table2": render("tables123/table2.tex.j2", rows=second, scope="surrogate"),
    }


def bare(tex):
    """Return LaTeX without comments, escaped signs and mathematics: the rest acts as commands."""
    tex = re.sub(r"^% .*\n", "", tex, flags=re.MULTILINE)
    return re.sub(r"\$[^$]*\$", "", re.sub(r"\\[\\{}$&#%_]", " ", tex))


def faults(tex):
    """Return what LaTeX would reject."""
    rest = bare(tex)
    if re.search(r"[$#%_^~\"]", rest):
        yield "an unescaped sign"
    if rest.count("{") != rest.count("}"):
        yield "unbalanced braces"
    begun, ended = (re.findall(rf"\\{word}\{{(\w+)\}}", rest) for word in ("begin", "end"))
    if begun != ended or len(begun) != 1:
        yield "unbalanced environments"
    columns = re.sub(r">\{[^}]*\}|(?<=p)\{[^}]*\}", "", re.search(r"\\begin\{\w+\}\{(.*)\}\n", tex)[1])
    for row in re.findall(r"^(.*) \\\\$", tex, re.MULTILINE):
        spans = [int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d+)\}", row)]
        if bare(row).count("&") + sum(spans) != len(columns) - 1:
            yield f"a row of another width: {row}"
    if not tex.isascii():
        yield f"signs that the fonts may lack: {set(re.findall(r'[^ -~]', tex))}"


@pytest.mark.parametrize("name", pieces())
def test_what_is_written_is_sound_by_latexs_rules(name):
    assert list(faults(pieces()[name])) == []
