"""The format of annotations: CSV as the forms export it, in UTF-8, with one row per pattern or judgement.

Tools of ``contrib/`` write other formats as this one.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from ff_memories.annotate.records import Judgement, Pattern, Problems, check_names
from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.base.text import csv_text

PATTERNS = ("run", "annotator", "item", "pattern", "type", "description", "prefixes")
JUDGEMENTS = ("run", "annotator", "item", "label")
NOTES = (".md", ".txt")  # may lie beside the files

Row = tuple[str, dict[str, str]]  # its place, and its cells by column


def read_all(paths: Iterable[str | Path], run: str, problems: Problems) -> tuple[list[Pattern], list[Judgement]]:
    """Return the patterns and judgements in one run's files; add the files' problems to ``problems``."""
    patterns: list[Pattern] = []
    judgements: list[Judgement] = []
    for path in sorted(map(Path, paths)):
        if path.suffix.lower() in NOTES:
            continue
        if path.suffix.lower() != ".csv":
            problems.add(
                str(path), "not an annotation file", "export CSV from the form; contrib/ converts other formats"
            )
            continue
        given = list(rows(path, problems))
        if foreign := next(((place, row["run"]) for place, row in given if row["run"] != run), None):
            place, other = foreign
            problems.add(place, f"labels for the run {other!r}", f"move the file to annotations/{other}/")
        elif given and "label" in given[0][1]:
            judgements += [
                Judgement(place, str(path), row["annotator"], row["item"], row["label"].lower()) for place, row in given
            ]
        else:
            patterns += [_pattern(place, path, row, problems) for place, row in given]
    check_names([*patterns, *judgements], problems)
    return patterns, judgements


def rows(path: str | Path, problems: Problems) -> Iterator[Row]:
    """Yield a file's rows; add what keeps it from being read to ``problems``."""
    place = str(path)
    try:
        require_file(path)
        reader = csv.reader(io.StringIO(Path(path).read_text(encoding="utf-8-sig"), newline=""), strict=True)
        header = [name.strip().lower() for name in next(reader, [])]
        columns = JUDGEMENTS if "label" in header else PATTERNS
        if lacking := [name for name in columns if name not in header]:
            problems.add(place, f"missing columns: {', '.join(lacking)}", "restore the form's header")
            return
        for cells in reader:
            place = f"{path}, row {reader.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                what = f"{len(cells)} cells, but the header has {len(header)}"
                problems.add(place, what, 'put text with commas in plain double quotes: "')
                continue
            yield place, {name: without_escape(value) for name, value in zip(header, cells, strict=True)}
    except csv.Error as error:
        problems.add(f"{path}, row {reader.line_num}", f"not readable as CSV ({error})", "export it again")
    except UnicodeDecodeError:
        problems.add(place, "not UTF-8", "export it again, or save it as CSV UTF-8")
    except (OSError, UserError) as error:
        problems.add(place, f"not readable ({getattr(error, 'strerror', None) or error})", "name existing files")


def without_escape(value: str) -> str:
    """Return a cell's text, without the apostrophe that keeps spreadsheets from reading it as a formula."""
    value = value.strip()
    return value[1:] if value.startswith("'") and value[1:].lstrip()[:1] in ("=", "+", "-", "@") else value


def _pattern(place: str, path: Path, row: dict[str, str], problems: Problems) -> Pattern:
    head = (place, str(path), row["annotator"], row["item"])
    kind, numbers = row["type"].lower(), row["prefixes"].split()
    if kind == "none":
        if numbers or row["description"]:
            problems.add(place, "a pattern of type none", "choose a type, or clear the row's other cells")
        return Pattern(*head)
    if odd := [number for number in numbers if not (number.isascii() and number.isdigit() and len(number) < 10)]:
        problems.add(place, f"{', '.join(map(repr, odd))} is not a prefix number", "write numbers such as 3 5 12")
    ranks = tuple(int(number) for number in numbers if number not in odd)
    return Pattern(*head, row["pattern"], kind or "(empty)", row["description"], ranks)


def pattern_csv(run: str, records: Iterable[Pattern]) -> str:
    """Return records in the forms' format."""
    cells = lambda r: (r.pattern or "0", r.type or "none", r.description, " ".join(map(str, r.ranks)))
    return csv_text(PATTERNS, ([run, r.annotator, r.item, *cells(r)] for r in records))


def judgement_csv(run: str, judged: Iterable[Judgement]) -> str:
    """Return judgements in the forms' format."""
    return csv_text(JUDGEMENTS, ([run, j.annotator, j.item, j.label] for j in judged))
