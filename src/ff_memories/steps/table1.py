"""Write Table 1, keys with their patterns and example prefixes, as HTML, CSV and LaTeX."""

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Input, Output
from ff_memories.model.info import neurons, read_info
from ff_memories.report import table1
from ff_memories.report.passages import Texts
from ff_memories.report.rendering import render


def run(
    annotations: Input,
    labels: Input,
    triggers: Input,
    sentences: Input,
    corpus: Input,
    dictionary: Input,
    info: Input,
    html: Output,
    csv: Output,
    tex: Output,
) -> None:
    """Write the table in three formats.

    Args:
        labels: the table pattern_labels
        html: file to write: an HTML fragment for the report
    """
    described, texts = read_info(info), Texts.read(sentences, corpus, dictionary)
    rows = table1.table1(
        tables.read(annotations),
        tables.read(labels),
        tables.read(triggers),
        texts,
        described["layers"],
        neurons(described),
    )
    scope = described["scope"]
    write_whole(html, render("table1.html.j2", rows=rows, scope=scope))
    write_whole(csv, table1.to_csv(rows, scope))
    write_whole(tex, table1.to_latex(rows, scope))
