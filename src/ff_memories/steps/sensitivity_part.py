"""Measure the claims with some choices made otherwise: one part of the `sensitivity` table.

A part is a name of a config section (`values`: every choice in it, one after the other) or of one choice
(`triggers.positions=full`). Steps that a choice does not touch are not run again: their files are taken from the run.
Where a run with the choice made so is refused (`corpus.too_long=refuse`, and a sentence is too long), no claim applies.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

import polars as pl

from ff_memories import config, tables
from ff_memories.base.errors import UserError
from ff_memories.base.options import threads
from ff_memories.base.progress import Progress
from ff_memories.claims.sensitivity.choices import parts, varied
from ff_memories.claims.sensitivity.table import refused, rows
from ff_memories.corpus import store

# Imported by name: a part depends on the source of every step that it may run again.
from ff_memories.steps import (
    annotation_plan,
    claims,
    composition,
    corpus,
    distance,
    docstrings,
    model,
    mutations,
    patterns,
    proxy,
    trigger_shard,
    triggers,
    values,
)
from ff_memories.steps.common import arithmetic_argument
from ff_memories.workflow.variants import evaluate, jobs_of

STEPS = {
    "annotation-plan": annotation_plan,
    "claims": claims,
    "composition": composition,
    "corpus": corpus,
    "distance": distance,
    "docstrings": docstrings,
    "model": model,
    "mutations": mutations,
    "patterns": patterns,
    "proxy": proxy,
    "trigger-shard": trigger_shard,
    "triggers": triggers,
    "values": values,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--configfile", required=True, help="the run's config file")
    parser.add_argument("--part", required=True, help="a config section, or choice=value")
    parser.add_argument("--corpus", required=True, help="the run's corpus.safetensors")
    parser.add_argument("--claims", required=True, help="the run's claims table")
    parser.add_argument("--threads", type=threads, default=os.cpu_count(), help="CPU threads")
    arithmetic_argument(parser)
    parser.add_argument("--out", required=True, metavar="sensitivity.parquet", help="table to write")


def run(args: argparse.Namespace) -> None:
    run_config = config.load(args.configfile)
    known = parts(run_config)
    if args.part not in known:
        raise UserError(f"--part: {args.part!r} is none of {', '.join(known)}")
    jobs = jobs_of(args.configfile, args.claims, args.threads)
    sentences = store.read(args.corpus).train
    Path(args.out).parent.mkdir(parents=True, exist_ok=True)
    done, progress = [], Progress(len(known[args.part]), "choices", args.part)
    for choice in known[args.part]:
        with tempfile.TemporaryDirectory(dir=Path(args.out).parent, prefix="variant-") as folder:
            try:
                moved = evaluate(jobs, varied(run_config, choice, sentences), Path(folder), command)
                measured = rows(tables.read(moved.get(args.claims, args.claims)), choice.path, choice.value)
            except UserError as error:
                print(f"{choice.name}: such a run is refused: {error}", file=sys.stderr)
                measured = refused(tables.read(args.claims), choice.path, choice.value)
            done.append(measured)
        progress.step(1)
    tables.write(pl.concat(done), args.out)


def command(words: list[str]) -> None:
    """Carry out one step in this process, without what it prints."""
    step = STEPS[words[0]]
    parser = argparse.ArgumentParser(prog=words[0])
    step.arguments(parser)
    with contextlib.redirect_stdout(io.StringIO()):
        step.run(parser.parse_args(words[1:]))
