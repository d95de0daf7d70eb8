"""What converters of annotations share: a run's items, and writing answers in the package's own format."""

from collections.abc import Iterable
from pathlib import Path

from contrib.corpus import corpus_of
from ff_memories import tables
from ff_memories.annotate import annotation_files, distance, study
from ff_memories.annotate.annotation_files import JUDGEMENTS, PATTERNS, Judgement, Pattern, Problems
from ff_memories.annotate.study import Item
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.text import csv_text
from ff_memories.corpus import store
from ff_memories.corpus.tokenizer import read_types
from ff_memories.workflow.run import Run

MENDED = "correct these places and convert again (nothing was written)"


def items(run: Run) -> list[Item]:
    """Return the items of a run's study, in the order shown. Raises ``UserError`` if its corpus is not here."""
    text, options = store.read(corpus_of(run, "the items")), run.config.patterns
    triggers, types = tables.read(run.table("triggers")), read_types(run.dictionary)
    listed = study.items(triggers, text, types, options.keys_per_layer, options.top, run.config.seed)
    plan = run.table("annotation_plan")
    if [item.item for item in listed] != tables.read(plan).sort("order")["item"].to_list():
        raise UserError(f"{plan}: does not belong to these triggers", "run the workflow again")
    return listed


def compositions(run: Run) -> list[distance.Compared]:
    """Return the compositions of a run's study, in the order shown."""
    cases = distance.compositions(tables.read(run.table("refinement")), run.config.seed)
    text, types = store.read(corpus_of(run, "the compositions")), read_types(run.dictionary)
    return distance.compared(cases, tables.read(run.table("examples")), text, types, run.config.seed)


def shown(run: Run) -> dict[str, int]:
    """Return {item that a run's annotators see: its number of prefixes}."""
    return dict(tables.read(run.table("annotation_plan")).select("item", "prefixes").iter_rows())


def write_patterns(run: Run, found: list[Pattern], problems: Problems, out: Path) -> None:
    """Write patterns as the forms export them. Raises ``UserError`` if some break a rule of the guide."""
    if out.suffix.lower() != ".csv":
        raise UserError(f"--out {out}: not a CSV file", "give it a name that ends in .csv")
    annotation_files.check_names(found, problems)
    annotation_files.check(found, shown(run), problems)
    problems.refuse(MENDED)
    if not found:
        raise UserError("the files hold no annotation")
    write_whole(out, pattern_csv(run.config.run, found))
    print(f"wrote {out}: {len({(r.annotator, r.item) for r in found})} items")


def pattern_csv(run: str, patterns: Iterable[Pattern]) -> str:
    """Return patterns in the forms' format."""
    return csv_text(
        PATTERNS,
        (
            [run, p.annotator, p.item, p.pattern or "0", p.type or "none", p.description, " ".join(map(str, p.ranks))]
            for p in patterns
        ),
    )


def judgement_csv(run: str, judged: Iterable[Judgement]) -> str:
    """Return judgements in the forms' format."""
    return csv_text(JUDGEMENTS, ([run, j.annotator, j.item, j.label] for j in judged))
