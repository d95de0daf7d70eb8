"""Write docs/deviations.md: what text and released code leave open, and what each choice was measured to do.

With --tables, the effects are taken from a run's `sensitivity` and `projection_seeds` tables, which are kept in
docs/data as CSV so that the page can be remade without the run; otherwise from what is kept there.
"""

import argparse
import difflib
from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.deviations.page import page

KEPT = ("sensitivity", "projection_seeds")
DIGITS = 6


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tables", type=Path, help="folder of a run's tables; without it, what docs/data holds")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="folder to write deviations.md and data/ to")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page is not up to date")


def run(args: argparse.Namespace) -> None:
    kept = {name: args.docs / "data" / f"{name}.csv" for name in KEPT}
    texts = {name: path.read_text(encoding="utf-8") for name, path in kept.items() if path.exists()}
    if args.tables is not None:
        texts = _taken(args.tables)
    new = page(*(table(name, texts[name]) if name in texts else None for name in KEPT))
    if args.check:
        _check(args.docs / "deviations.md", new)
        return
    for name, text in texts.items():
        write_whole(kept[name], text)
    write_whole(args.docs / "deviations.md", new)


def _taken(folder: Path) -> dict[str, str]:
    found = {name: folder / f"{name}.parquet" for name in KEPT if (folder / f"{name}.parquet").exists()}
    if "sensitivity" not in found:
        raise UserError(
            f"{folder}: no sensitivity.parquet", "snakemake --cores all sensitivity projection_seeds makes the tables"
        )
    return {name: csv(tables.read(path)) for name, path in found.items()}


def csv(frame: pl.DataFrame) -> str:
    """Return a table as CSV, floats to six significant digits."""
    return frame.with_columns(pl.col(pl.Float64).round_sig_figs(DIGITS)).write_csv()


def table(name: str, text: str) -> pl.DataFrame:
    """Return a kept table. Raises ``UserError`` where it is none."""
    schema = tables.TABLES[name]
    empty = [] if name != "sensitivity" else ["value"]
    try:
        frame = pl.read_csv(text.encode(), schema_overrides={c: pl.String for c in schema.columns})
        frame = frame.with_columns(pl.col(c).fill_null("") for c in empty)
        return tables.conform(frame, schema)
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise UserError(f"docs/data/{name}.csv: not readable ({error})", "ff-memories deviations --tables …") from None


def _check(path: Path, new: str) -> None:
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if old != new:
        lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), str(path), "as it should be")
        raise UserError(f"{path} is not up to date\n{''.join(lines)}", "ff-memories deviations")
