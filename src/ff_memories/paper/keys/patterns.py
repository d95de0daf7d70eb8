"""E2 and E14: draw the items to show to annotators, check people's annotations, and merge them with the proxy's."""

import polars as pl

from ff_memories import tables
from ff_memories.annotate import annotation_files, distance, scoring, study
from ff_memories.annotate.annotation_files import Problems, check, check_judgements
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import AnyInputs, Input, Inputs, Output
from ff_memories.base.text import csv_text
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.tokenizer import read_types


def run(
    config: Settings,
    annotated: AnyInputs,
    triggers: Input,
    examples: Input,
    refinement: Input,
    corpus: Input,
    dictionary: Input,
    proxy: Inputs,
    plan: Output,
    annotations: Output,
    labels: Output,
    distances: Output,
    scores: Output,
    stale: Output,
    counts: Output,
) -> None:
    """Merge people's labels with the proxy's.

    Args:
        annotated: the annotators' files
        proxy: the proxy's tables annotations, pattern_labels, distance_labels and annotation_scores
        plan: file to write: the table annotation_plan: keys, repeated keys and foils, in random order
        annotations: file to write: the table annotations, of people and proxy
        labels: file to write: the table pattern_labels, of people and proxy
        distances: file to write: the table distance_labels, of people and proxy
        scores: file to write: the table annotation_scores, of people and proxy
        stale: file to write: annotations that no longer fit the plan, as CSV
    """
    problems, options = Problems(), config.patterns
    text, types = store.read(corpus), read_types(dictionary)
    items = study.items(tables.read(triggers), text, types, options.keys_per_layer, options.top, config.seed)
    tables.write(study.plan(items), plan, neurons=tables.neurons_of(triggers))
    asked = tables.read(plan)
    given, judgements = annotation_files.read_all(annotated, config.run, problems)
    compositions = distance.compositions(tables.read(refinement), config.seed)
    cases = distance.compared(compositions, tables.read(examples), text, types, config.seed)
    example_of = {case.item: case.example for case in cases}
    prefixes = dict(asked.select("item", "prefixes").iter_rows())
    records, judged = check(given, prefixes, problems), check_judgements(judgements, example_of, problems)
    problems.refuse("correct these rows and run the workflow again (nothing was scored or written)")

    machine = {tables.name_of(path): tables.read(path) for path in proxy}
    patterns, labelled = scoring.annotations(records, asked), scoring.item_labels(records, asked)
    answers = [(j.annotator, example_of[j.item], j.label) for j in judged]
    people = pl.DataFrame(answers, schema=tables.TABLES["distance_labels"].columns, orient="row")
    rows = scoring.distance_scores(pl.concat([machine["distance_labels"], people]), config.seed)
    if labelled.height:
        rows += scoring.scores(patterns, labelled, machine["pattern_labels"], config.seed)
    new = {
        annotations: patterns,
        labels: scoring.pattern_labels(labelled),
        distances: people,
        scores: pl.DataFrame(rows, schema=tables.TABLES["annotation_scores"].columns, orient="row"),
    }
    for path, frame in new.items():
        table = pl.concat([machine[tables.name_of(path)], frame])
        tables.write(table, path, neurons=tables.neurons_of(triggers) if "key" in table.columns else None)
    not_shown = [s for s in given if s.item not in prefixes] + [s for s in judgements if s.item not in example_of]
    gone = sorted({(s.annotator, s.item, s.file) for s in not_shown})
    write_whole(stale, csv_text(["annotator", "item", "file"], gone))
    everybody = {r.annotator for r in [*given, *judged]}
    reasons = {
        "people_and_simulated": len(everybody),
        "items_asked": len(asked),
        "items_annotated": labelled.select("annotator", "item").n_unique() if labelled.height else 0,
        "items_stale": len(gone),
        "compositions_judged": len(people),
        "compositions_labelled": len(machine["distance_labels"]),
        "compositions_short_of_the_sample": distance.CASES - len(machine["distance_labels"]),
    }
    tables.write_counts("patterns", reasons, counts)
