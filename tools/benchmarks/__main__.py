"""Measure the trigger pass against the forward pass and against caching all activations, side by side.

    python -m tools.benchmarks --keep

Random weights and made-up sentences: no run's files are needed. ``--size full`` is two models, one small and as much of
the paper's dimensions as two CPU cores can do in some minutes; ``paper`` is the paper's in full, for a GPU.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import torch

from ff_memories.base import arithmetic
from ff_memories.base.arithmetic import ROUNDOFF
from ff_memories.base.errors import UserError
from ff_memories.base.machine import hardware
from ff_memories.base.parameters import threads, whole
from ff_memories.base.progress import Progress
from ff_memories.model.loading import chosen_device
from tools.benchmarks import page
from tools.benchmarks.measures import MEASURES, Subject
from tools.benchmarks.models import SIZES, random_decoder

RUNS = {name: (name,) for name in SIZES} | {"full": ("small", "paper-part")}
NAMES = {
    "quick": "2 layers, d = 32",
    "small": "6 layers, d = 256",
    "paper": "the paper's dimensions",
    "paper-part": "the paper's dimensions, little text",
}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=RUNS, default="full")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: a GPU if there is one")
    parser.add_argument("--precision", choices=ROUNDOFF, default="float32", help="extraction.precision")
    parser.add_argument("--threads", type=threads, default=os.cpu_count(), help="CPU threads")
    parser.add_argument("--rounds", type=whole(), default=3, help="rounds of each measurement")
    parser.add_argument("--batch-tokens", type=whole(), help="tokens in one forward pass; GPU: 65536, CPU: 4096")
    parser.add_argument("--tokens", type=whole(1000), help="length of the long pass, in place of the size's own")
    parser.add_argument("--only", nargs="*", choices=MEASURES, default=["trigger_pass"], help="measurements to make")
    parser.add_argument("--keep", action="store_true", help="add what was measured to docs/data/benchmark.csv")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="file for the numbers")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the page, and keep the numbers where they are asked for."""
    args = parse(argv)
    table = measure(args)
    if args.csv:
        table.write_csv(args.csv)
    if args.keep:
        page.keep(table)
    print(page.markdown(table))


def measure(args: argparse.Namespace) -> pl.DataFrame:
    """Make the measurements that were asked for, model by model; return them with the columns ``page.COLUMNS``."""
    torch.set_num_threads(max(1, args.threads))
    device = chosen_device(args.device)
    budget = args.batch_tokens or (65_536 if device == "cuda" else 4096)
    rows = []
    with Progress(len(args.only) * len(RUNS[args.size]), "measurements", "benchmark") as progress:
        for name in RUNS[args.size]:
            size = replace(SIZES[name], corpus=args.tokens or SIZES[name].corpus)
            decoder = random_decoder(size, device, precision=args.precision)
            model = NAMES[name] + (f", {args.precision}" if args.precision != "float32" else "")
            for measurement in args.only:
                rows += MEASURES[measurement](Subject(model, size, decoder, args.rounds, budget))
                progress.step(1)
    made = {"machine": machine(device), "threads": args.threads}
    return pl.DataFrame([row | made for row in rows], schema=page.COLUMNS)


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
