"""Read annotators' CSV files, from the form or from spreadsheets, and report every problem by row."""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from ff_memories.base.files import require_file
from ff_memories.base.text import csv_text
from ff_memories.patterns.annotation_plan import Item
from ff_memories.patterns.readers.records import QUOTES, Judgement, Pattern, Problems, parse_ranks

COLUMNS = ["run", "annotator", "item", "pattern", "type", "description", "prefixes"]  # of the form's export
DISTANCE = ["run", "annotator", "item", "label"]
SPREADSHEET = 8  # pattern columns in the spreadsheet
TICKS = frozenset({"x", "1", "✓", "✔", "true", "yes"})
HEADER, KIND = "description", "type"  # the rows above the prefixes of an item

Rows = list[tuple[str, dict[str, str]]]  # each row's place, and its cells by column


def rows(path: str | Path, problems: Problems) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a CSV file's rows as (place, cells by column)."""
    text = _text(path, problems)
    if text is None:
        return
    lines = list(io.StringIO(text, newline=""))
    if not any(line.strip(" \t\r\n,;") for line in lines):
        problems.add(str(path), "the file is empty", "save the sheet again, or remove the file")
        return
    delimiter = max(",;\t", key=lines[0].count)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header, ending, mixed = None, None, False
    while True:
        row = reader.line_num + 1
        place = f"{path}, row {row}"
        try:
            cells = next(reader, None)
        except csv.Error as error:
            problems.add(place, f"not readable as CSV ({error})", "save the sheet again as CSV in UTF-8")
            return
        if cells is None:
            return
        end = _ending(lines[reader.line_num - 1])
        if ending and end and end != ending and not mixed:
            problems.add(
                place,
                f"this row ends in {end}, but earlier rows in {ending}: two files were joined",
                "open the file in a spreadsheet or an editor and save it with one kind of line ending",
            )
            mixed = True
        ending = ending or end
        if header is None:
            if row == 1 and cells and cells[0].lower().startswith("sep="):
                continue  # Excel's line that sets the delimiter
            header = [c.strip().lower() for c in cells]
            if twice := sorted({c for c in header if c and header.count(c) > 1}):
                problems.add(place, f"two columns are named {', '.join(twice)}", "restore the original header")
            continue
        if not any(c.strip() for c in cells):
            continue
        if len(cells) > len(header) and any(c.strip() for c in cells[len(header) :]):
            curly = any(q in c for c in cells for q in QUOTES)
            why = " (CSV does not recognise typographic quotes)" if curly else ""
            problems.add(
                place,
                f"{len(cells)} cells, but the header has {len(header)}{why}",
                'put text with commas in plain double quotes: "',
            )
            continue
        if len(cells) < len(header):
            cells = [*cells, *[""] * (len(header) - len(cells))]
        yield place, {name: _cell(value) for name, value in zip(header, cells, strict=False)}


def _cell(value: str) -> str:
    value = value.strip()  # an apostrophe keeps spreadsheets from reading text as a formula
    return value[1:] if value.startswith("'") and value[1:].lstrip()[:1] in ("=", "+", "-", "@") else value


def _ending(line: str) -> str | None:
    return {"\r\n": "CR LF", "\n": "LF", "\r": "CR"}.get(line[len(line.rstrip("\r\n")) :])


def _text(path: str | Path, problems: Problems) -> str | None:
    require_file(path)
    content = Path(path).read_bytes()
    for said, found in (
        ("a renamed spreadsheet file", content.startswith(b"PK\3\4")),
        ("UTF-16, which Excel calls Unicode text", content[:2] in (b"\xff\xfe", b"\xfe\xff")),
        ("UTF-16 or not text", b"\0" in content),
    ):
        if found:
            problems.add(str(path), f"it is {said}", 'save it in the spreadsheet format "CSV UTF-8"')
            return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = content[: error.start].count(b"\n") + 1
        problems.add(f"{path}, row {row}", "not UTF-8", 'save it in the spreadsheet format "CSV UTF-8"')
        return None


def read(path: str | Path, run: str, problems: Problems) -> tuple[list[Pattern], list[Judgement]]:
    """Read one CSV file in any of the three formats."""
    given = list(rows(path, problems))
    if not given:
        if not any(found.startswith(str(path)) for found in problems.found):
            problems.add(str(path), "the file has only a header", "add annotations, or remove the file")
        return [], []
    columns = set(given[0][1])
    first = f"{path}, row 1"
    if set(COLUMNS) <= columns:
        return _form(path, _of_run(given, run, problems), problems), []
    if set(DISTANCE) <= columns:
        return [], _distance(path, _of_run(given, run, problems))
    if {"run", "annotator", "item", "row", "pattern 1"} <= columns:
        return _spreadsheet(path, _of_run(given, run, problems), problems), []
    lacking = sorted(set(COLUMNS) - columns)
    problems.add(first, f"missing columns: {', '.join(lacking)}", "restore the sheet's original header")
    return [], []


def _of_run(given: Rows, run: str, problems: Problems) -> Rows:
    """Return this run's rows, with the annotator's name filled down; report other runs' rows once per file."""
    named, said, out = "", False, []
    for place, row in given:
        named = row["annotator"] or named
        if row["run"] and row["run"] != run:
            if not said:
                problems.add(place, f"labels for the run {row['run']!r}", f"move the file to annotations/{row['run']}/")
            said = True
            continue
        out.append((place, row | {"annotator": named}))
    return out


def _form(path: str | Path, given: Rows, problems: Problems) -> list[Pattern]:
    out = []
    for place, row in given:
        head = (place, str(path), row["annotator"], row["item"])
        kind = row["type"].lower()
        if kind == "none":
            out.append(Pattern(*head))
            if row["prefixes"] or row["description"]:
                problems.add(place, "a pattern of type none", "choose a type, or clear the row's other cells")
            continue
        ranks = parse_ranks(row["prefixes"], place, problems)
        found = ranks or (), ranks is not None
        out.append(Pattern(*head, row["pattern"], kind or "(empty)", row["description"], *found))
    return out


def _distance(path: str | Path, given: Rows) -> list[Judgement]:
    return [
        Judgement(place, str(path), row["annotator"], row["item"], row["label"].lower())
        for place, row in given
        if row["label"]
    ]


def _spreadsheet(path: str | Path, given: Rows, problems: Problems) -> list[Pattern]:
    """Read the wide sheet: for each item a row of descriptions, a row of types, and a row of ticks per prefix."""
    blocks: dict[str, Rows] = {}
    ended: set[str] = set()
    last = None
    for place, row in given:
        if row["item"] != last and last is not None:
            ended.add(last)
        if row["item"] in ended and row["row"] == HEADER:
            problems.add(place, f"{row['annotator']} already annotated {row['item']}", "keep one of the two")
            ended.discard(row["item"])
        last = row["item"]
        blocks.setdefault(row["item"], []).append((place, row))
    out = []
    for item, block in blocks.items():
        out += _block(path, item, block, problems)
    return out


def _block(path: str | Path, item: str, block: Rows, problems: Problems) -> list[Pattern]:
    columns = [f"pattern {n}" for n in range(1, SPREADSHEET + 1)]
    by_row = {row["row"]: (place, row) for place, row in block}
    if any(name not in by_row for name in (HEADER, KIND)):
        problems.add(block[0][0], f"{item} lacks its row {HEADER!r} or {KIND!r}", "restore the sheet's original rows")
        return []
    place, described = by_row[HEADER]
    type_place, typed = by_row[KIND]
    prefixes = [(p, row) for p, row in block if row["row"] not in (HEADER, KIND)]
    head = (str(path), described["annotator"], item)
    out = []
    for number, column in enumerate(columns, 1):
        ranks, before = [], len(problems.found)
        for p, row in prefixes:
            ticked = row.get(column, "").lower()
            if ticked and ticked not in TICKS:
                problems.add(p, f"unknown mark {ticked!r} in {column}", "tick with x, or leave the cell empty")
            elif ticked and not (row["row"].isascii() and row["row"].isdigit()):
                problems.add(p, f"the row's number is {row['row']!r}", "restore the original column row")
            elif ticked:
                ranks.append(int(row["row"]))
        readable = len(problems.found) == before
        if described.get(column, "").lower() == "none" and not ranks:
            out.append(Pattern(place, *head))
        elif ranks or not readable or described.get(column) or typed.get(column):
            kind = typed.get(column, "").lower() or "(empty)"
            where = type_place if kind not in ("shallow", "semantic") else place
            out.append(Pattern(where, *head, str(number), kind, described.get(column, ""), tuple(ranks), readable))
    return out


def form_csv(run: str, records: list[Pattern]) -> str:
    """Return records in the form's export format."""
    return csv_text(
        COLUMNS,
        (
            [run, r.annotator, r.item, r.pattern or "0", r.type or "none", r.description, " ".join(map(str, r.ranks))]
            for r in records
        ),
    )


def distance_csv(run: str, judged: list[Judgement]) -> str:
    """Return judgements in the form's export format."""
    return csv_text(DISTANCE, ([run, j.annotator, j.item, j.label] for j in judged))


def spreadsheet_csv(run: str, items: Iterable[Item], records: Iterable[Pattern] = ()) -> str:
    """Return the wide sheet of items, empty or filled with one annotator's records."""
    noted: dict[str, list[Pattern]] = {}
    for record in records:
        noted.setdefault(record.item, []).append(record)
    header = [
        "run",
        "annotator",
        "item",
        "row",
        "prefix",
        "last token",
        *(f"pattern {n + 1}" for n in range(SPREADSHEET)),
    ]
    out = []
    for item in items:
        mine = noted.get(item.item, [])
        name = mine[0].annotator if mine else ""
        fill = lambda cells: [*cells, *[""] * (SPREADSHEET - len(cells))]
        out.append([run, name, item.item, HEADER, "", "", *fill([r.description or "none" for r in mine])])
        out.append([run, name, item.item, KIND, "", "", *fill([r.type for r in mine])])
        for rank, words in enumerate(item.prefixes, 1):
            ticks = fill(["x" if rank in r.ranks else "" for r in mine])
            out.append([run, name, item.item, str(rank), " ".join(words[:-1]), words[-1] if words else "", *ticks])
    return csv_text(header, out)
