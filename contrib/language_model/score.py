"""Score annotators' files beside the run's people and proxy: agreement of every two, and patterns seen in foils.

The files change nothing in the run. With them you can compare a language model (`answers`) with people.
"""

import argparse
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import polars as pl

from contrib import annotation_study
from ff_memories import tables
from ff_memories.annotate import annotation_files, scoring
from ff_memories.annotate.annotation_files import Problems, check
from ff_memories.annotate.scoring import Score
from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file, write_whole
from ff_memories.base.text import csv_text
from ff_memories.tables.annotation import ANNOTATOR, PEOPLE
from ff_memories.workflow import opening

Pair = tuple[str, str, str, *Score]  # two annotators, a measure, and its score
HEADER = ("who", "beside", "measure", "value", "low", "high", "n")


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--files", required=True, nargs="+", action="extend", type=Path, help="annotators' files")
    parser.add_argument("--out", type=Path, help="CSV file to write, with all measures; default: only print")


def run(args: argparse.Namespace) -> None:
    run_ = opening.opened(args.configfile)
    if lacking := [path for path in args.files if not path.is_file()]:
        raise UserError(f"{lacking[0]}: no such file", "write it with: python -m contrib.language_model answers")
    if notes := [path for path in args.files if path.suffix.lower() in annotation_files.NOTES]:
        raise UserError(f"{notes[0]}: not an annotation file", "name CSV files")
    own = [Path(path) for path in run_.annotations]
    if args.out and args.out.resolve() in {path.resolve() for path in [*own, *args.files]}:
        raise UserError(f"{args.out}: has annotations", "choose another file for --out")
    seed, plan = run_.config.seed, tables.read(run_.table("annotation_plan"))
    proxy_labels = tables.read(run_.table("pattern_labels")).filter(annotator=ANNOTATOR)
    problems = Problems()
    given, _ = annotation_files.read_all(_once([*own, *args.files]), run_.config.run, problems)
    shown = annotation_study.shown(run_)
    records = check(given, shown, problems)
    problems.refuse("correct these rows and score again (nothing was scored or written)")
    if not records:
        raise UserError(
            "the files label no item of this run",
            "write prompts for this run: python -m contrib.language_model prompts",
        )
    found, labels = scoring.annotations(records, plan), scoring.item_labels(records, plan)
    scores = scoring.scores(found, labels, proxy_labels, seed)
    rows: list[Pair] = [
        (row[0], "", *row[1:]) for row in scores if row[0] != PEOPLE
    ]  # the pairs below say whom they compare
    merged = tables.read(run_.table("annotation_scores")).filter(who=ANNOTATOR)
    rows += [(ANNOTATOR, "", *row) for row in merged.drop("who").iter_rows()]
    both = pl.concat([scoring.pattern_labels(labels), proxy_labels.select(*tables.TABLES["pattern_labels"].columns)])
    rows += pairs(both, seed)
    if args.out:
        write_whole(args.out, csv_text(HEADER, rows))
    for row in rows:
        if row[2] in ("foil_rate", "keys_with_pattern", "patterns_per_key", "repeat_agreement", "alpha_nominal"):
            print(_line(*row))
    if stale := {pattern.item for pattern in given} - shown.keys():
        print(f"{len(stale)} items of another sample or extraction were not scored")


def pairs(labels: pl.DataFrame, seed: int) -> list[Pair]:
    """Return the agreement of every two annotators on the prefixes of keys that both labelled.

    Args:
        labels: rows with ``annotator``, ``layer``, ``key``, ``rank`` and ``label``, as of ``pattern_labels``.
        seed: of the bootstrap over keys.

    Returns:
        (one, other, measure, value, low, high, n): 95 % intervals and n are over keys. Without a shared key, n is 0.
    """
    out: list[Pair] = []
    every = labels.select("annotator", "layer", "key", "rank", pl.col("label").cast(pl.String))
    for one, other in combinations(sorted(every["annotator"].unique().to_list()), 2):
        mine, theirs = (every.filter(pl.col("annotator") == name) for name in (one, other))
        both = mine.join(theirs, on=["layer", "key", "rank"], suffix="_other").sort("layer", "key", "rank")
        keys = [
            scoring.counted([list(row) for row in part.select("label", "label_other").iter_rows()])
            for _, part in both.group_by("layer", "key", maintain_order=True)
        ]
        for measure in scoring.MEASURES:
            out.append((one, other, measure, *scoring.over_keys(keys, seed, measure), len(keys)))
    return out


def _once(paths: Iterable[Path]) -> list[Path]:
    """Return the paths without copies of a file: a user scores a file that was already copied into the run."""
    found: dict[tuple[str, bytes], Path] = {}
    for path in paths:
        require_file(path)
        try:
            found.setdefault((path.suffix.lower(), path.read_bytes()), path)
        except OSError:  # which the reader reports
            found[str(path), b""] = path
    return list(found.values())


def _line(
    who: str, beside: str, measure: str, value: float | None, low: float | None, high: float | None, n: int
) -> str:
    name = f"{who} and {beside}" if beside else who
    number = "–" if value is None else f"{value:.3f}"
    between = "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"
    return f"{name}: {measure} {number}{between}, n = {n}"
