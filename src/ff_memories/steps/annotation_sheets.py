"""Write an annotation study's forms for the browser: one HTML file each, without server or network."""

from collections.abc import Iterable
from typing import Any

from ff_memories import tables
from ff_memories.annotate import distance, study
from ff_memories.annotate.annotation_files import JUDGEMENTS, PATTERNS
from ff_memories.annotate.distance import LABELS, Compared
from ff_memories.annotate.study import FEWEST, Item, content_hash
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Input, Output
from ff_memories.base.text import environment
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.tokenizer import read_types


def run(
    config: Settings,
    plan: Input,
    triggers: Input,
    examples: Input,
    refinement: Input,
    corpus: Input,
    dictionary: Input,
    patterns: Output,
    distances: Output,
) -> None:
    """Write the forms.

    Args:
        patterns: the form for the patterns of keys, patterns.html
        distances: the form for the distances of compositions, distance.html
    """
    text, types, options = store.read(corpus), read_types(dictionary), config.patterns
    items = study.items(tables.read(triggers), text, types, options.keys_per_layer, options.top, config.seed)
    if [i.item for i in items] != tables.read(plan).sort("order")["item"].to_list():
        raise UserError(f"{plan}: does not belong to these triggers", "run the workflow again")
    compositions = distance.compositions(tables.read(refinement), config.seed)
    cases = distance.compared(compositions, tables.read(examples), text, types, config.seed)
    write_whole(patterns, pattern_form(config.run, items))
    write_whole(distances, distance_form(config.run, cases))


def _render(template: str, data: dict[str, Any]) -> str:
    # the browser's saved answers apply to exactly these items
    data["storage"] = f"{data['run']} {template} {content_hash(' '.join(i['item'] for i in data['items']))}"
    return environment("annotate").get_template(template).render(data=data)


def pattern_form(run: str, items: Iterable[Item]) -> str:
    """Return the form for the patterns of keys."""
    shown = [{"item": i.item, "prefixes": [[" ".join(p[:-1]), p[-1] if p else ""] for p in i.prefixes]} for i in items]
    return _render("patterns.html.j2", {"run": run, "items": shown, "fewest": FEWEST, "columns": PATTERNS})


def distance_form(run: str, cases: Iterable[Compared]) -> str:
    """Return the form for the distances of compositions."""
    shown = [
        {"item": c.item, "prefix": " ".join(c.prefix), "residual": c.residual, "ffn": c.ffn, "output": c.output}
        for c in cases
    ]
    return _render("distance.html.j2", {"run": run, "items": shown, "labels": LABELS, "columns": JUDGEMENTS})
