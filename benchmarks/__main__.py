"""Measure the engine against the forward pass, other methods and fairseq, side by side (the `benchmark` table).

    python -m benchmarks --benchmark benchmark.parquet --page benchmark.md

Random weights and made-up sentences: no run's files are needed. Writes the table, a figure and a page. ``--size full``
is two models, one small and as much of the paper's dimensions as two CPU cores can do in some minutes; ``paper`` is the
paper's in full, for a GPU.
"""

import argparse
import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import polars as pl
import torch

from benchmarks import page
from benchmarks.measures import MEASURES, MORE, Subject
from benchmarks.subjects import SIZES, random_decoder
from ff_memories import tables
from ff_memories.base import arithmetic
from ff_memories.base.arithmetic import ROUNDOFF
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.machine import hardware
from ff_memories.base.parameters import threads, whole
from ff_memories.base.progress import Progress
from ff_memories.figures import render
from ff_memories.model.loading import chosen_device

RUNS = {"quick": ("quick",), "small": ("small",), "full": ("small", "paper-part"), "paper": ("paper",),
        "paper-part": ("paper-part",)}  # fmt: skip
NAMES = {"quick": "2 layers, d = 32", "small": "6 layers, d = 256", "paper": "the paper's dimensions",
         "paper-part": "the paper's dimensions, little text"}  # fmt: skip


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=RUNS, default="full")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: a GPU if there is one")
    parser.add_argument("--precision", choices=ROUNDOFF, default="float32", help="extraction.precision")
    parser.add_argument("--threads", type=threads, default=os.cpu_count(), help="CPU threads")
    parser.add_argument("--rounds", type=whole(), default=3, help="rounds of each measurement")
    parser.add_argument(
        "--batch-tokens", type=whole(), default=None, help="tokens in one forward pass; GPU: 65536, CPU: 4096"
    )
    parser.add_argument("--tokens", type=whole(), help="length of the long pass, in place of the size's own")
    parser.add_argument("--only", nargs="*", default=[m.__name__ for m in MEASURES], help="measurements to make")
    parser.add_argument("--from", dest="tables", nargs="+", metavar="TABLE", help="measured before: measure nothing")
    parser.add_argument("--keep", action="store_true", help="add what was measured to docs/benchmark.md and its data")
    parser.add_argument("--benchmark", required=True, metavar="TABLE", help="benchmark.parquet to write")
    parser.add_argument("--figure", metavar="SVG", help="figure to write")
    parser.add_argument("--page", metavar="MD", help="page to write")
    args = parser.parse_args(argv)
    if Path(args.benchmark).name != "benchmark.parquet":
        parser.error(f"--benchmark {args.benchmark}: a table is named after what it holds: benchmark.parquet")
    known = [measure.__name__ for measure in (*MEASURES, *MORE)]
    if unknown := set(args.only) - set(known):
        parser.error(f"--only: there is no {min(unknown)}, but {', '.join(known)}")
    if args.tokens is not None and args.tokens < 1000:
        parser.error(f"--tokens: {args.tokens} are too few: give 1000 or more")
    return args


def main(argv: list[str] | None = None) -> None:
    """Measure, or read what was measured before, and write table, figure and page."""
    args = parse(argv)
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # fairseq's modules
    if args.tables is None:
        measure(args)
    else:
        write(pl.concat([tables.read(path) for path in args.tables]).drop("row"), args.benchmark)
    frame = tables.read(args.benchmark)
    if args.keep:
        page.keep(frame)
    if args.figure:
        Path(args.figure).parent.mkdir(parents=True, exist_ok=True)
        write_whole(args.figure, render.svg(render.spec(page.chart(frame)), "benchmark"))
    if args.page:
        write_whole(args.page, page.markdown(frame))


def write(rows: pl.DataFrame, path: str) -> None:
    tables.write(rows.with_row_index("row"), path)


def measure(args: argparse.Namespace) -> None:
    """Make the measurements that were asked for, model by model; each one is in the table as soon as it is made."""
    torch.set_num_threads(max(1, args.threads))
    device = chosen_device(args.device)
    budget = args.batch_tokens or (65_536 if device == "cuda" else 4096)
    rows, chosen = [], [measure for measure in (*MEASURES, *MORE) if measure.__name__ in args.only]
    with Progress(len(chosen) * len(RUNS[args.size]), "measurements", "benchmark") as progress:
        for name in RUNS[args.size]:
            size = replace(SIZES[name], corpus=args.tokens or SIZES[name].corpus)
            decoder = random_decoder(size, device, precision=args.precision)
            model = NAMES[name] + (f", {args.precision}" if args.precision != "float32" else "")
            at = Subject(model, size, decoder, args.rounds, budget)
            for measure in chosen:
                rows += measure(at)
                made = pl.DataFrame(rows, infer_schema_length=None)
                on = pl.lit(machine(device)).alias("machine"), pl.lit(args.threads).alias("threads")
                write(made.with_columns(on), args.benchmark)
                progress.step(1)


def machine(device: str) -> str:
    """Say what it was measured on."""
    if device == "cuda":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    wide = "AVX-512" if "avx512f" in arithmetic.instructions() else "AVX2"
    return f"{dict(hardware())['processor']} ({wide}), torch {torch.__version__}"


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
