"""Write Table 3 (Appendix A), a fully annotated key, as HTML, CSV and LaTeX."""

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Input, Output
from ff_memories.config import Settings
from ff_memories.model.info import neurons, read_info
from ff_memories.report import table3
from ff_memories.report.passages import Texts
from ff_memories.report.rendering import render


def run(
    config: Settings,
    annotations: Input,
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
        html: file to write: an HTML fragment for the report
    """
    described, texts = read_info(info), Texts.read(sentences, corpus, dictionary)
    found = table3.annotated_key(
        tables.read(annotations), tables.read(triggers), texts, config.patterns.top, neurons(described)
    )
    scope = described["scope"]
    write_whole(html, render("table3.html.j2", found=found, scope=scope))
    write_whole(csv, table3.to_csv(found, scope))
    write_whole(tex, table3.to_latex(found, scope))
