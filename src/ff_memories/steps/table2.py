"""Write Table 2, the most predictive values with a trigger of each, as HTML, CSV (100 values) and LaTeX."""

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Input, Output
from ff_memories.config import Settings
from ff_memories.figures.other_types import SAID
from ff_memories.model.info import neurons, read_info
from ff_memories.report import table2
from ff_memories.report.passages import Texts
from ff_memories.report.rendering import render


def run(
    config: Settings,
    values: Input,
    triggers: Input,
    sentences: Input,
    corpus: Input,
    dictionary: Input,
    info: Input,
    html: Output,
    csv: Output,
    tex: Output,
    rows: int = 10,
) -> None:
    """Write the table in three formats.

    Args:
        html: file to write: an HTML fragment for the report
        rows: number of values in the HTML and LaTeX tables
    """
    described, texts = read_info(info), Texts.read(sentences, corpus, dictionary)
    target = config.values.target
    known = tables.read(values)
    types = table2.other_types(known)
    found = table2.table2(known, tables.read(triggers), texts, target, neurons=neurons(described))
    scope = described["scope"]
    said, shares = types and SAID[types], table2.agreement(known)
    fragment = render("table2.html.j2", rows=found[:rows], scope=scope, target=target, other=said, agreement=shares)
    write_whole(html, fragment)
    write_whole(csv, table2.to_csv(found, scope, types))
    write_whole(tex, table2.to_latex(found[:rows], scope, types))
