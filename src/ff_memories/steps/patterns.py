"""E2 and E14: people's annotations and the automatic proxy's, checked, scored and put together."""

import argparse

import polars as pl

from ff_memories import tables
from ff_memories.base.escaping import csv_text
from ff_memories.base.files import write_whole
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.patterns import annotation_plan, distance, scoring
from ff_memories.patterns.readers import study
from ff_memories.patterns.readers.records import Problems, Shown, check, check_judgements
from ff_memories.steps.common import Configured, config_argument, write_counts

OWN = ("annotations", "pattern_labels", "distance_labels", "annotation_scores")


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    parser.add_argument("--files", nargs="*", default=[], help="annotators' files")
    parser.add_argument("--plan", required=True, help="table annotation_plan")
    parser.add_argument("--triggers", required=True, help="table")
    parser.add_argument("--examples", required=True, help="table")
    parser.add_argument("--refinement", required=True, help="table")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--dictionary", required=True, help="the model's dict.txt")
    parser.add_argument("--proxy", required=True, nargs="+", help=f"the proxy's tables {', '.join(OWN)}")
    parser.add_argument("--out", required=True, nargs="+", help="the same tables, of people and proxy, to write")
    parser.add_argument("--stale", required=True, metavar="CSV", help="what was annotated and no longer fits, to write")
    parser.add_argument("--counts", required=True, help="counts to write")


def run(args: Configured) -> None:
    config, problems = args.config, Problems()
    given, judged = study.read(args.files, config.run, problems)
    asked = tables.read(args.plan)
    refinement, examples = tables.read(args.refinement), tables.read(args.examples)
    cases = distance.compared(
        distance.compositions(refinement, config.seed), examples, store.read(args.corpus),
        Dictionary.read(args.dictionary), config.seed,
    )  # fmt: skip
    example_of = {case.item: case.example for case in cases}
    possible = {annotation_plan.identity("composition", None, example) for example in examples["example"]}
    shown = Shown(dict(asked.select("item", "prefixes").iter_rows()), _identities(args.triggers) if given else set())
    records, stale = check(given, shown, problems)
    judged, stale_too = check_judgements(judged, example_of, possible, distance.LABELS, problems)
    problems.refuse()

    machine = {tables.name_of(path): tables.read(path) for path in args.proxy}
    found, labels = scoring.annotations(records, asked), scoring.item_labels(records, asked)
    people = pl.DataFrame(
        [(j.annotator, example_of[j.item], j.label) for j in judged],
        schema=tables.TABLES["distance_labels"].columns, orient="row",
    )  # fmt: skip
    rows = scoring.distance_scores(pl.concat([machine["distance_labels"], people]), config.seed)
    if labels.height:
        rows += scoring.scores(found, labels, machine["annotations"], machine["pattern_labels"], config.seed)
    new = {
        "annotations": found, "pattern_labels": scoring.pattern_labels(labels), "distance_labels": people,
        "annotation_scores": pl.DataFrame(rows, schema=tables.TABLES["annotation_scores"].columns, orient="row"),
    }  # fmt: skip
    for path in args.out:
        tables.write(pl.concat([machine[tables.name_of(path)], new[tables.name_of(path)]]), path)
    gone = sorted({(s.annotator, s.item, s.file) for s in [*stale, *stale_too]})
    write_whole(args.stale, csv_text(["annotator", "item", "file"], gone))
    everybody = {r.annotator for r in [*given, *judged]}
    counts = {
        "people_and_simulated": len(everybody),
        "items_asked": len(asked),
        "items_annotated": labels.select("annotator", "item").n_unique() if labels.height else 0,
        "items_stale": len(gone),
        "compositions_judged": len(people),
        "compositions_labelled": len(machine["distance_labels"]),
        "compositions_short_of_the_sample": distance.CASES - len(machine["distance_labels"]),
    }
    write_counts("patterns", counts, args.counts)


def _identities(triggers: str) -> set[str]:
    """Return the names of all items that keys of this model can be."""
    size = tables.read(triggers).select(pl.col("layer").max(), pl.col("key").max() + 1).row(0)
    return annotation_plan.identities(*(n or 0 for n in size))
