"""Render the forms for annotators: one HTML file each, without server or network.

They stand apart from the scoring, so a change to a form changes no result.
"""

from collections.abc import Iterable
from typing import Any

from ff_memories.annotate.annotation_files import JUDGEMENTS, PATTERNS
from ff_memories.annotate.distance import LABELS, Compared
from ff_memories.annotate.study import FEWEST, Item, content_hash
from ff_memories.base.text import environment


def _render(template: str, data: dict[str, Any], **context: object) -> str:
    # the browser's saved answers apply to exactly these items
    data["storage"] = f"{data['run']} {template} {content_hash(' '.join(i['item'] for i in data['items']))}"
    return environment("annotate").get_template(template).render(data=data, **context)


def pattern_form(run: str, items: Iterable[Item]) -> str:
    """Return the form for the patterns of keys."""
    shown = [{"item": i.item, "prefixes": [[" ".join(p[:-1]), p[-1] if p else ""] for p in i.prefixes]} for i in items]
    return _render(
        "patterns.html.j2", {"run": run, "items": shown, "fewest": FEWEST, "columns": PATTERNS}, fewest=FEWEST
    )


def distance_form(run: str, cases: Iterable[Compared]) -> str:
    """Return the form for the distances of compositions."""
    shown = [
        {"item": c.item, "prefix": " ".join(c.prefix), "residual": c.residual, "ffn": c.ffn, "output": c.output}
        for c in cases
    ]
    return _render("distance.html.j2", {"run": run, "items": shown, "labels": LABELS, "columns": JUDGEMENTS})
