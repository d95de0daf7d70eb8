"""Write Tables 1, 2 and 3: keys and values with passages of the text, as HTML, CSV and LaTeX."""

from pathlib import Path

from ff_memories import tables as schemas
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Input, Param, Params, Tables
from ff_memories.config import Settings
from ff_memories.model.info import read_info
from ff_memories.report.passages import Texts
from ff_memories.report.tables123 import EXCERPTS


def run(
    excerpts: Params, config: Settings, tables: Tables, corpus: Input, dictionary: Input, info: Input, out: Param
) -> None:
    """Write tables in three formats.

    Args:
        excerpts: table1, table2 or table3
        tables: the tables that they are made from
        out: folder to write to: an HTML fragment for the report, CSV and LaTeX of each
    """
    texts = Texts.read(tables["sentences"], corpus, dictionary)
    for excerpt in excerpts:
        read = {name: schemas.read(tables[name]) for name in EXCERPTS[excerpt].tables}
        formats = EXCERPTS[excerpt].write(read, texts, read_info(info), config)
        for suffix, text in zip(("html", "csv", "tex"), formats, strict=True):
            write_whole(Path(out, f"{excerpt}.{suffix}"), text)
