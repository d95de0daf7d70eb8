"""The sheets: for each item a row of descriptions, a row of types, and a row of ticks per prefix."""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from ff_memories.annotate.annotation_files import JUDGEMENTS, Judgement, Pattern, Problems, Row, without_escape
from ff_memories.annotate.distance import Compared
from ff_memories.annotate.study import Item
from ff_memories.base.text import csv_text

COLUMNS = [f"pattern {n}" for n in range(1, 9)]
TICKS = frozenset({"x", "1", "✓", "✔", "true", "yes"})
HEADER, KIND = "description", "type"  # the rows above the prefixes of an item


def patterns(run: str, items: Iterable[Item], records: Iterable[Pattern] = ()) -> str:
    """Return the sheet of items, empty or filled with one annotator's records."""
    noted: dict[str, list[Pattern]] = {}
    for record in records:
        noted.setdefault(record.item, []).append(record)
    fill = lambda cells: [*cells, *[""] * (len(COLUMNS) - len(cells))]
    out = []
    for item in items:
        mine = noted.get(item.item, [])
        name = mine[0].annotator if mine else ""
        out.append([run, name, item.item, HEADER, "", "", *fill([r.description or "none" for r in mine])])
        out.append([run, name, item.item, KIND, "", "", *fill([r.type for r in mine])])
        for rank, words in enumerate(item.prefixes, 1):
            ticks = fill(["x" if rank in r.ranks else "" for r in mine])
            out.append([run, name, item.item, str(rank), " ".join(words[:-1]), words[-1] if words else "", *ticks])
    return csv_text(["run", "annotator", "item", "row", "prefix", "last token", *COLUMNS], out)


def distances(run: str, cases: Iterable[Compared]) -> str:
    """Return the sheet of compositions."""
    header = [*JUDGEMENTS, "prefix", "before the layer", "the layer", "together"]
    return csv_text(header, ([run, "", c.item, "", " ".join(c.prefix), c.residual, c.ffn, c.output] for c in cases))


def read(path: Path, run: str, problems: Problems) -> tuple[list[Pattern], list[Judgement]]:
    """Return the patterns or the judgements in a sheet; add what is wrong to ``problems``."""
    rows = list(_rows(path, problems))
    columns = set(rows[0][1]) if rows else set()
    if other := next((row for row in rows if row[1].get("run") not in ("", run)), None):
        problems.add(other[0], f"not of the run {run!r}", "name the sheet's own run with --configfile")
    elif set(JUDGEMENTS) <= columns:
        return [], [
            Judgement(place, str(path), row["annotator"], row["item"], row["label"].lower())
            for place, row in _filled(rows)
            if row["label"]
        ]
    elif {"run", "annotator", "item", "row", *COLUMNS} <= columns:
        blocks: dict[str, list[Row]] = {}
        for place, row in _filled(rows):
            blocks.setdefault(row["item"], []).append((place, row))
        return [record for item, block in blocks.items() for record in _block(path, item, block, problems)], []
    elif not any(said.startswith(str(path)) for said in problems):
        problems.add(str(path), "not a sheet of this study", "restore the sheet's original header")
    return [], []


def _rows(path: Path, problems: Problems) -> Iterator[Row]:
    """Yield a CSV file's rows; commas, semicolons or tabs separate cells, and a line ``sep=`` may come first."""
    place = str(path)
    try:
        lines = io.StringIO(path.read_text(encoding="utf-8-sig"), newline="").readlines()
        if lines and lines[0].lower().startswith("sep="):
            lines[0] = "\n"
        delimiter = max(",;\t", key=next((line for line in lines if line.strip()), "").count)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        header: list[str] = []
        for cells in reader:
            place = f"{path}, row {reader.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip().lower() for cell in cells]
            elif any(cell.strip() for cell in cells[len(header) :]):
                what = f"{len(cells)} cells, but the header has {len(header)}"
                problems.add(place, what, 'put text with commas in plain double quotes: "')
            else:
                cells += [""] * (len(header) - len(cells))
                yield place, {name: without_escape(cell) for name, cell in zip(header, cells, strict=False)}
    except csv.Error as error:
        problems.add(f"{path}, row {reader.line_num}", f"not readable as CSV ({error})", "save it again as CSV")
    except UnicodeDecodeError:
        problems.add(place, "not UTF-8", 'save it in the spreadsheet format "CSV UTF-8"')
    except OSError as error:
        problems.add(place, f"not readable ({error.strerror})", "name existing files")


def _filled(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows with the annotator's name filled down."""
    name = ""
    for place, row in rows:
        name = row["annotator"] or name
        yield place, row | {"annotator": name}


def _block(path: Path, item: str, block: list[Row], problems: Problems) -> Iterator[Pattern]:
    by_row: dict[str, Row] = {}
    for place, row in block:
        if by_row.setdefault(row["row"], (place, row))[0] != place:
            problems.add(place, f"{item} has its row {row['row']!r} twice", "keep one of the two")
            return
    if HEADER not in by_row or KIND not in by_row:
        problems.add(block[0][0], f"{item} lacks its row {HEADER!r} or {KIND!r}", "restore the sheet's original rows")
        return
    (place, described), (_, typed) = by_row.pop(HEADER), by_row.pop(KIND)
    head = (place, str(path), described["annotator"], item)
    for number, column in enumerate(COLUMNS, 1):
        ranks = []
        for name, (at, row) in by_row.items():
            mark = row[column].lower()
            if mark and mark not in TICKS:
                problems.add(at, f"unknown mark {mark!r} in {column}", "tick with x, or leave the cell empty")
            elif mark and not (name.isascii() and name.isdigit()):
                problems.add(at, f"the row's number is {name!r}", "restore the original column row")
            elif mark:
                ranks.append(int(name))
        if described[column].lower() == "none" and not ranks:
            yield Pattern(*head)
        elif ranks or described[column] or typed[column]:
            yield Pattern(*head, str(number), typed[column].lower() or "(empty)", described[column], tuple(ranks))
