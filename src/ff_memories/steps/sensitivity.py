"""Gather what each choice does to each claim (the `sensitivity` table), the run's own claims among them."""

import argparse

import polars as pl

from ff_memories import tables
from ff_memories.claims.sensitivity.table import rows


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--claims", required=True, help="the run's claims table")
    parser.add_argument("--parts", required=True, nargs="+", metavar="TABLE", help="what sensitivity-part wrote")
    parser.add_argument("--out", required=True, metavar="sensitivity.parquet", help="table to write")


def run(args: argparse.Namespace) -> None:
    tables.write(pl.concat([rows(tables.read(args.claims)), *map(tables.read, args.parts)]), args.out)
