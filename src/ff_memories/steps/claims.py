"""Judge the paper's claims by this run's tables, and gather all counts (tables `claims` and `counts`)."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import write_whole
from ff_memories.claims import Evidence, natural, register, verdicts
from ff_memories.claims.numbers import measured
from ff_memories.claims.stop_words import stop_words
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.model.info import read_info
from ff_memories.report.claims_table import to_latex
from ff_memories.steps.common import Configured, config_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    parser.add_argument("--info", required=True, help="info.json")
    parser.add_argument("--dictionary", required=True, help="the checkpoint's dict.txt")
    parser.add_argument("--tables", nargs="*", default=[], metavar="TABLE", help="this run's tables, those there are")
    parser.add_argument("--counts", nargs="*", default=[], metavar="PATH", help="every step's counts: files or folders")
    parser.add_argument("--out", required=True, metavar="claims.parquet", help="table to write")
    parser.add_argument("--out-counts", required=True, metavar="counts.parquet", help="table to write")
    parser.add_argument("--metrics", required=True, metavar="claims.json", help="the verdicts as JSON, to write")
    parser.add_argument("--each", required=True, type=Path, metavar="FOLDER", help="the same for DVC, a file each")
    parser.add_argument("--latex", metavar="claims.tex", help="the verdicts as a LaTeX table, to write")


def run(args: Configured) -> None:
    for path, table in ((args.out, "claims"), (args.out_counts, "counts")):
        if Path(path).stem != table:
            raise UserError(f"{path}: this table's file is called {table}.parquet")
    info, settings = read_info(args.info), args.config
    evidence = Evidence(
        tables=read_tables(args.tables),
        layers=info["layers"],
        keys=info["keys"],
        vocab=info["vocab"],
        seed=settings.seed,
        mean=settings.mutations.mean,
        prediction="output_top" if settings.composition.layer_prediction == "output" else "ffn_top",
        one_softmax=not info["final_norm"]
        and (settings.values.projection in ("flat", "head") or not info["adaptive_output"]),
        stop_words=stop_words(settings.composition.stop_words, Dictionary.read(args.dictionary)),
    )
    judged = verdicts(register(), evidence, info["scope"])
    counts = merge_counts(args.counts)
    tables.write(judged, args.out)
    tables.write(counts, args.out_counts)
    found = metrics(judged)
    write_whole(args.metrics, json.dumps(found, indent=1, sort_keys=True) + "\n")
    for claim in register():
        _, number = natural(claim.id)
        write_whole(args.each / f"K{number:02}-{claim.name}.json", json.dumps(found[claim.id]) + "\n")
    if args.latex:
        write_whole(args.latex, to_latex(judged, info["scope"]))
    print(listing(judged))


def read_tables(paths: Iterable[str]) -> dict[str, pl.DataFrame]:
    """Read tables by what their files are called. Raises ``UserError`` for a file that is no table."""
    return {tables.name_of(path): tables.read(path) for path in paths}


def merge_counts(paths: Iterable[str]) -> pl.DataFrame:
    """Return all counts together, from Parquet files of the ``counts`` schema or folders of such files."""
    files = []
    for path in map(Path, paths):
        files += sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    schema = tables.TABLES["counts"]
    parts = [pl.DataFrame(schema=schema.columns)]
    for file in files:
        try:
            parts.append(tables.conform(pl.read_parquet(file), schema))
        except (OSError, pl.exceptions.PolarsError, ValueError) as error:
            raise UserError(f"{file}: not readable as counts ({error})", rebuild_hint(file)) from None
    try:
        return tables.conform(pl.concat(parts), schema)
    except ValueError as error:
        raise UserError(f"counts: {error} in {', '.join(map(str, files))}") from None


def metrics(claims: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """Return each claim's measured value, to six significant digits, and its verdict."""
    return {
        row["claim"]: {
            "measured": None if row["measured"] is None else float(f"{row['measured']:.6g}"),
            "verdict": row["verdict"],
        }
        for row in claims.iter_rows(named=True)
    }


def listing(claims: pl.DataFrame) -> str:
    """Return the verdicts as text for a terminal, one claim per line."""
    units = {claim.id: claim.unit for claim in register()}
    lines = [f"{'claim':5}  {'verdict':15} {'measured':>12}  the paper's value"]
    for row in sorted(claims.iter_rows(named=True), key=lambda r: natural(r["claim"])):
        value = measured(row["measured"], units[row["claim"]])
        lines.append(f"{row['claim']:5}  {row['verdict']:15} {value:>12}  {row['paper_value']}")
    return "\n".join(lines)
