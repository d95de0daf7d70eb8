"""Write Table 1, 2 or 3: keys and values with passages of the text, as HTML, CSV and LaTeX."""

from ff_memories import tables as schemas
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Input, Output, Tables, Wildcard
from ff_memories.config import Settings
from ff_memories.model.info import read_info
from ff_memories.report.excerpts import EXCERPTS, table1, table2, table3
from ff_memories.report.excerpts.given import Given
from ff_memories.report.passages import Texts

FILES = {"table1": table1.files, "table2": table2.files, "table3": table3.files}


def run(
    table: Wildcard,
    config: Settings,
    tables: Tables,
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
        table: table1, table2 or table3
        tables: the tables that it is made from
        html: file to write: an HTML fragment for the report
        rows: number of values in Table 2's HTML and LaTeX; its CSV has 100
    """
    if table not in EXCERPTS:
        raise UserError(f"--table {table}: no such table", f"choose from {', '.join(EXCERPTS)}")
    texts = Texts.read(tables["sentences"], corpus, dictionary)
    read = {name: schemas.read(tables[name]) for name in EXCERPTS[table].tables}
    made = FILES[table](Given(read, texts, read_info(info), config, rows))
    for path, text in zip((html, csv, tex), made, strict=True):
        write_whole(path, text)
