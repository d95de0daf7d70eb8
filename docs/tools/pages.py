"""Shared code of this folder's scripts, which write a page or check that it is up to date (``--check``)."""

import argparse
import csv
import difflib
import io
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ff_memories.base.files import write_whole

ROOT = Path(__file__).parents[2]
END = "<!-- end -->"


def options(about: str | None, out: Path) -> argparse.ArgumentParser:
    """Return a parser with the options of all scripts; ``about``: the script's docstring; ``out``: its page."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=out, help="page to write")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not up to date")
    return parser


def update_part(
    argv: Sequence[str] | None,
    about: str | None,
    page: str,
    begin: str,
    part: Callable[..., str],
    kept: Mapping[Path, tuple[Sequence[str], Callable[[list[Path]], Iterable[Mapping[str, str]]]]],
) -> None:
    """Update a page's part from CSV files of docs/data; with ``--results``, write these from runs first.

    Args:
        about: the script's docstring.
        page: its name in docs.
        begin: the marker above the part.
        part: makes the part from each file's rows.
        kept: {file: its columns, and what makes its rows from the folders that ``--results`` names}.
    """
    parser = options(about, ROOT / "docs" / page)
    parser.add_argument("--results", type=Path, nargs="+", help="folders of results, as above")
    args = parser.parse_args(argv)
    files = {args.out.parents[1] / path: made for path, made in kept.items()}
    if args.results:
        for file, (columns, rows) in files.items():
            write_rows(file, columns, rows(args.results))
    renew(args.out, replaced(args.out.read_text(encoding="utf-8"), begin, part(*map(read_rows, files))), args.check)


def renew(path: Path, new: str, check: bool) -> None:
    """Write a page; with ``check``, exit with status 1 and the lines that differ."""
    if not check:
        write_whole(path, new)
        return
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if old != new:
        lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), str(path), "expected")
        sys.exit(f"{path} is not up to date; run make docs-pages\n{''.join(lines)}")


def replaced(text: str, begin: str, part: str) -> str:
    """Return a page with the lines between the marker ``begin`` and ``END`` replaced.

    Raises:
        ValueError: the page lacks a marker.
    """
    between = re.compile(f"{re.escape(begin)}\n.*?{re.escape(END)}", re.DOTALL)
    if not between.search(text):
        raise ValueError(f"it has no {begin} … {END}")
    return between.sub(lambda _: f"{begin}\n{part}\n{END}", text, count=1)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file of docs/data."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    """Write a CSV file of docs/data."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue())


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])
