"""What a run cost: time and memory of every rule, with the hardware, as a page outside of all comparisons."""

import argparse
from pathlib import Path

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.base.machine import hardware
from ff_memories.base.progress import duration
from ff_memories.report.cost import costs
from ff_memories.report.rendering import render


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--logs", required=True, type=Path, help="folder with Snakemake's benchmark files (.tsv)")
    parser.add_argument("--out", required=True, metavar="cost.html", help="page to write")


def run(args: argparse.Namespace) -> None:
    measured = args.logs.parent / "tables" / "benchmark.parquet"
    write_whole(
        args.out,
        render(
            "cost.html.j2",
            costs=costs([str(path) for path in sorted(args.logs.rglob("*.tsv"))]),
            hardware=hardware(),
            duration=duration,
            benchmark=tables.read(measured).to_dicts() if measured.exists() else [],
        ),
    )
