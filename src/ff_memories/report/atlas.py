"""Write the page of an atlas: what was compared, the verdicts of every run, and the figures with their numbers."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from ff_memories.figures import font
from ff_memories.judge.wording import VERDICTS
from ff_memories.report.html import inline, policy, render

MANY = 4  # more runs than this do not fit beside a claim's statement


def page(
    runs: Sequence[Mapping[str, Any]],
    warnings: Sequence[str],
    notes: Sequence[str],
    different: Mapping[str, Sequence[str]],
    claims: Sequence[Mapping[str, Any]],
    definitions: Sequence[Mapping[str, Any]],
    sections: Sequence[Mapping[str, Any]],
    scopes: Sequence[str],
) -> str:
    """Return the page as one self-contained HTML document.

    Args:
        runs: facts about each run: ``name``, ``label``, ``report`` and ``facts``, all in the same order.
        warnings: what makes the runs hard to compare.
        notes: what a reader should know besides.
        different: {setting: each run's value} of the settings that differ.
        claims: ``id``, ``statement``, ``paper``, ``unit``, ``source`` and ``cells``, one verdict per run or None.
        definitions: ``label`` and ``said`` of every run whose definitions are not the paper's.
        sections: ``number``, ``title``, ``heading`` and ``figures``: its figures with their SVG and rows of numbers.
        scopes: of the runs, in order.
    """
    facts = {name: [run["facts"][name] for run in runs] for name in runs[0]["facts"]}
    shown = [dict(s) | {"figures": [_figure(figure) for figure in s["figures"]]} for s in sections]
    return render(
        "atlas/atlas.html.j2",
        runs=runs,
        many=len(runs) > MANY,
        facts={
            name: values[:1] if len(runs) > MANY and len(set(values)) == 1 else values for name, values in facts.items()
        },
        warnings=warnings,
        notes=notes,
        different=different,
        claims=claims,
        definitions=definitions,
        sections=shown,
        scopes=scopes,
        used=[v for v in VERDICTS if any(cell and cell["verdict"] == v for claim in claims for cell in claim["cells"])],
        font=Markup(font.face()),
        policy=Markup(policy(None)),
    )


def _figure(figure: Mapping[str, Any]) -> dict[str, Any]:
    drawing = Markup(inline(figure["svg"], figure["name"], figure["describes"]))
    return dict(figure) | {"svg": drawing, "formula": formula(figure["formula"])}


def formula(text: str) -> Markup:
    """Return a formula in plain text as HTML: the letter after an underscore becomes an index."""
    return Markup(re.sub(r"_(\w)", r"<sub>\1</sub>", str(escape(text))))
